#!/usr/bin/env bash
# Runs all tests, with an engine if one can be had.
#
#   hack/test.sh [go test arguments…]    (default: ./...)
#
# As root on Debian or Ubuntu it first installs what the tests want: a compiler
# for the race detector, Docker, gVisor's runsc, qemu-user, busybox and
# mmdebstrap. Without an engine the tests that need one are skipped, unless
# PINFOLD_REQUIRE_DOCKER=1, which makes them fail.
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
[[ $# -gt 0 ]] || set -- ./...

# register_runsc makes gVisor a runtime of the Docker that is about to start. A
# configuration that is there is somebody's, and is left alone.
register_runsc() {
  [[ -x /usr/bin/runsc && ! -e /etc/docker/daemon.json ]] || return 0
  if engine_answers; then
    return 0 # it would need a restart, and others may be using it
  fi
  say "registering runsc in /etc/docker/daemon.json"
  mkdir -p /etc/docker
  cat >/etc/docker/daemon.json <<'END'
{
  "runtimes": {
    "runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=ptrace", "--network=none"]}
  }
}
END
}

install_wishes() {
  install_packages gcc libc6-dev procps || say "going on without a compiler"
  local p
  for p in busybox-static mmdebstrap qemu-user-static runsc; do
    install_packages "$p" || say "going on without $p: the tests that want it are skipped"
  done
  register_runsc
}

if can_install; then
  install_wishes
fi
if "$root/hack/engine.sh"; then
  "$root/hack/images.sh"
  export PINFOLD_REQUIRE_DOCKER=1
elif [[ ${PINFOLD_REQUIRE_DOCKER:-} == 1 ]]; then
  die "PINFOLD_REQUIRE_DOCKER=1 and there is no engine"
else
  say "no engine: the tests that need one are skipped"
fi

race=-race
if [[ $(go env CGO_ENABLED) != 1 ]] || ! command -v "$(go env CC)" >/dev/null; then
  say "no C compiler: testing without the race detector"
  race=
fi
export TESTCONTAINERS_RYUK_DISABLED=true # its image would come from a registry
say "go test ${race:+$race }$*"
# shellcheck disable=SC2086 # $race is one word or none
exec go test -buildvcs=false $race -timeout 60m "$@" </dev/null
