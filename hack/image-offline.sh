#!/usr/bin/env bash
# Makes one of our images without a registry, from Debian packages, and loads it
# into the engine. Needs root on Debian or Ubuntu and a Debian mirror.
#
#   hack/image-offline.sh sandbox|minimal [--no-cache]
#
# This is `pinfold images build --offline`; what it does to make the root file
# system is in images/rootfs.sh. A finished image is kept in ~/.cache/pinfold,
# in the form that `docker load` reads, and the next time is quick.
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# -ge 1 && $1 != -* ]] || die "usage: hack/image-offline.sh sandbox|minimal [--no-cache]"
cd "$root"
exec go run -buildvcs=false ./cmd/pinfold images build --offline "$@"
