#!/usr/bin/env bash
# Makes sure that the engine has our images: those that are missing are built
# from their Dockerfiles where a registry is reached, and from Debian packages
# otherwise.
#
#   hack/images.sh [NAME…]    (default: minimal sandbox)
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pinfold=$root/bin/pinfold
[[ -x $pinfold ]] || die "there is no bin/pinfold: run make build"
[[ $# -gt 0 ]] || set -- minimal sandbox

present=$("$pinfold" images list) || die "the engine cannot be asked for its images: see above"
for name in "$@"; do
  read -r _ ref there _ <<<"$(grep "^$name " <<<"$present")"
  [[ -n $ref ]] || die "pinfold has no image called $name"
  if [[ $there == yes ]]; then
    say "$ref is there"
    continue
  fi
  say "$ref is missing: building it"
  if "$pinfold" images build "$name" </dev/null; then
    continue
  fi
  say "no registry is reached: making it from Debian packages"
  "$pinfold" images build --offline "$name" </dev/null ||
    die "$ref could not be made: see above"
done
