#!/usr/bin/env bash
# Gets a container engine if none answers: as root on Debian or Ubuntu it
# installs and starts Docker from the distribution's packages; elsewhere it says
# what to do and fails. It never touches an engine that answers.
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

log=/var/log/pinfold-dockerd.log

advice() {
  cat >&2 <<'END'
== No container engine answers. To get one:
==   Debian, Ubuntu   sudo apt-get install docker.io   (or run this as root)
==   Fedora           sudo dnf install podman && systemctl --user start podman.socket
==                    export DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock
==   macOS, Windows   Docker Desktop, Colima, Rancher Desktop or Podman Desktop
== and check it with: docker version
END
}

main() {
  if engine_answers; then
    say "a container engine answers"
    return
  fi
  if [[ -n ${DOCKER_HOST:-} ]]; then
    die "nothing answers at DOCKER_HOST=$DOCKER_HOST: start that engine, or unset DOCKER_HOST"
  fi
  if ! can_install; then
    advice
    exit 1
  fi
  say "no container engine answers: getting Docker from the distribution's packages"
  install_packages docker.io || die "docker.io could not be installed: see above"
  # With systemd, or an init script, the package has started it.
  if [[ -d /run/systemd/system ]]; then
    systemctl start docker || die "systemctl start docker failed: see journalctl -u docker"
  elif ! wait_for_engine 3; then
    start_dockerd
  fi
  if ! wait_for_engine 90; then
    [[ ! -s $log ]] || tail -n 20 "$log" >&2
    die "dockerd does not answer: see $log"
  fi
  say "Docker $(docker version --format '{{.Server.Version}}') answers"
}

# remove_stale removes a pid file whose process is gone, or is no longer that
# program: it would keep the next one from starting.
remove_stale() {
  local file=$1 program=$2 pid
  [[ -e $file ]] || return 0
  pid=$(cat "$file" 2>/dev/null || true)
  if [[ $pid =~ ^[0-9]+$ && $(cat "/proc/$pid/comm" 2>/dev/null || true) == "$program" ]]; then
    return
  fi
  say "removing the stale $file"
  rm -f "$file"
}

start_dockerd() {
  remove_stale /var/run/docker.pid dockerd
  remove_stale /var/run/docker/containerd/containerd.pid containerd
  say "starting dockerd in the background; it writes to $log"
  # A session of its own and none of our files: whoever reads our output, or
  # waits for make's, must not wait for the daemon.
  (
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      [[ $fd -le 2 ]] || eval "exec $fd>&-"
    done
    exec setsid --fork dockerd
  ) >>"$log" 2>&1 </dev/null
}

# wait_for_engine waits that many seconds at most, and not for a dockerd that
# has given up.
wait_for_engine() {
  local deadline=$((SECONDS + $1)) gone=0
  while ! engine_answers; do
    [[ $SECONDS -lt $deadline ]] || return 1
    if grep -sqx dockerd /proc/[0-9]*/comm; then
      gone=0
    elif gone=$((gone + 1)) && [[ $gone -ge 5 ]]; then
      return 1
    fi
    sleep 0.5
  done
}

main "$@"
