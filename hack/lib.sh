# shellcheck shell=bash
# shellcheck disable=SC2034 # who sources this uses the variables
#
# What the scripts of this folder share. To be sourced.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/pinfold

# say goes to standard error, so that a script's output stays its own.
say() { printf '== %s\n' "$*" >&2; }
die() {
  printf '== %s\n' "$*" >&2
  exit 1
}

# can_install: root on a system with apt, so Debian, Ubuntu and their kin.
can_install() { [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; }

# apt_get runs apt-get so that nothing can ask a question and nothing that a package
# starts holds our output open. What it printed is shown when it fails.
apt_get() {
  local log
  log=$(mktemp "${TMPDIR:-/tmp}/pinfold-apt.XXXXXX")
  if DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -qy -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 </dev/null; then
    rm -f "$log"
    return
  fi
  tail -n 30 "$log" >&2
  rm -f "$log"
  return 1
}

# install_packages installs what is missing; the lists are refreshed once.
install_packages() {
  local missing=() p
  for p in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) == installed ]] || missing+=("$p")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ -z ${apt_updated:-} ]]; then
    say "apt-get update"
    apt_get update || say "the package lists could not be refreshed; going on with those that are there"
    apt_updated=1
  fi
  say "apt-get install ${missing[*]}"
  apt_get install "${missing[@]}"
}

# engine_answers: a container engine answers where the docker command would
# look for it.
engine_answers() {
  if command -v docker >/dev/null; then
    timeout 15 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
  elif command -v curl >/dev/null && [[ ${DOCKER_HOST:-unix:///var/run/docker.sock} == unix://* ]]; then
    local host=${DOCKER_HOST:-unix:///var/run/docker.sock}
    [[ $(curl -s -m 15 --unix-socket "${host#unix://}" http://engine/_ping 2>/dev/null) == OK ]]
  else
    return 1
  fi
}
