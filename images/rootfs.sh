#!/usr/bin/env bash
# Makes the root file system of one of the images from Debian packages, without
# a registry, and writes it as a tar archive to standard output.
#
#   images/rootfs.sh sandbox|minimal ARCH >rootfs.tar
#
# ARCH is Debian's name: amd64, arm64. Needs root on Debian or Ubuntu, and a
# Debian mirror: the one in PINFOLD_DEBIAN_MIRROR (such as
# http://deb.debian.org/debian), else Debian's own. Progress goes to standard
# error. Whatever ends it, nothing temporary is left.
#
# The same packages give the same bytes: file times are cut to
# SOURCE_DATE_EPOCH and what differs from machine to machine is left out.
set -euo pipefail

suite=bookworm
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1748736000} # 2025-06-01
export LC_ALL=C

say() { printf '%s\n' "$*" >&2; }
die() { say "rootfs.sh: $*"; exit 1; }

name=${1:-}
arch=${2:-}
[[ $name =~ ^(sandbox|minimal)$ && $arch =~ ^[a-z0-9-]+$ ]] || die "usage: rootfs.sh sandbox|minimal ARCH >rootfs.tar"
[[ ! -t 1 ]] || die "standard output is a terminal: redirect it to a file"
[[ $(id -u) -eq 0 ]] || die "needs root, to unpack files as their owners: run it with sudo"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

work=
child=
cleanup() {
  local code=$?
  trap - EXIT
  trap '' HUP INT TERM
  if [[ -n $child ]]; then # it removes its own files when it is told to end
    kill -TERM -- "-$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  [[ -z $work ]] || rm -rf --one-file-system "$work"
  exit "$code"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# run waits for a command in the background, so that a signal is acted on at
# once and not when the command has ended. The command gets a process group of
# its own, which is ended as a whole: mmdebstrap itself waits for its children.
# Its output goes to "$1".
run() {
  local out=$1
  shift
  set -m
  "$@" >"$out" </dev/null &
  child=$!
  set +m
  local code=0
  wait "$child" || code=$?
  child=
  return "$code"
}

need_mmdebstrap() {
  command -v mmdebstrap >/dev/null && return
  command -v apt-get >/dev/null || die "mmdebstrap is missing and this is not Debian or Ubuntu"
  say "installing mmdebstrap"
  export DEBIAN_FRONTEND=noninteractive
  run /dev/stderr apt-get -qq update || say "apt-get update failed; going on with the package lists as they are"
  run /dev/stderr apt-get -qq -y --no-install-recommends install mmdebstrap debian-archive-keyring ||
    die "mmdebstrap could not be installed: see above"
}

bootstrap() {
  local out=$1
  shift
  local sources=()
  if [[ -n ${PINFOLD_DEBIAN_MIRROR:-} ]]; then
    sources=("$PINFOLD_DEBIAN_MIRROR")
  fi
  run "$out" mmdebstrap --architectures="$arch" --format=tar --skip=output/dev "$@" \
    "$suite" - ${sources[@]+"${sources[@]}"} ||
    die "mmdebstrap failed: see above; is a Debian mirror reached? (PINFOLD_DEBIAN_MIRROR names another)"
}

# hook is a shell line that mmdebstrap runs with the new root directory as $1.
# shellcheck disable=SC2016 # it is expanded there, not here
hook='chroot "$1" sh -s <"$PINFOLD_SETUP" && cd "$1" &&
  rm -f etc/hostname etc/resolv.conf etc/*- var/log/lastlog var/log/faillog'

sandbox() {
  local packages
  packages=$(paste -sd, "$here/sandbox/packages.txt")
  # The same documentation is left out as in debian:bookworm-slim.
  export PINFOLD_SETUP=$here/sandbox/setup.sh
  bootstrap /dev/stdout --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/lintian/*' \
    --customize-hook="$hook"
}

minimal() {
  bootstrap "$work/package.tar" --variant=extract --include=busybox-static
  mkdir -p "$work/root/bin"
  tar -xOf "$work/package.tar" ./bin/busybox >"$work/root/bin/busybox"
  cp "$here/minimal/setup.sh" "$work/root/bin/setup.sh"
  chmod 0755 "$work/root" "$work/root/bin" "$work/root/bin/busybox"
  run /dev/stderr chroot "$work/root" /bin/busybox sh /bin/setup.sh ||
    die "busybox for $arch does not run here: install qemu-user-static to make images of other architectures"
  run /dev/stdout tar --sort=name --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work/root" -c .
}

umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/pinfold-rootfs.XXXXXX")
need_mmdebstrap
"$name"
