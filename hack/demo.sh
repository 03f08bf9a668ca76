#!/usr/bin/env bash
# A tour: runs commands that nobody should run, and checks what became of them.
# It gets an engine and an image if it can; without an engine it shows the
# process backend and says what to do. It ends with 0 unless something that it
# shows was not so.
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pinfold=$root/bin/pinfold
[[ -x $pinfold ]] || die "there is no bin/pinfold: run make build"

exec 2>&1 # what is said and what is shown stay in order

bold='' dim='' red='' plain=''
if [[ -t 1 ]]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' plain=$'\e[0m'
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/pinfold-demo.XXXXXX")
mkdir "$work/project"
chmod 0755 "$work" "$work/project" # it is mounted, and read by another user there
sandbox=pinfold-demo-$$
mark=(--label "pinfold-demo=$$") # to find again what this tour made
background=
cleanup() {
  [[ -z $background ]] || kill "$background" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

wrong=0
chapter() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s   %s%s\n' "$dim" "$*" "$plain"; }
check() { # check WHAT COMMAND…: says whether the command succeeds
  local what=$1
  shift
  if "$@"; then
    printf '   ✓ %s\n' "$what"
  else
    printf '   %s✗ %s%s\n' "$red" "$what" "$plain"
    wrong=$((wrong + 1))
  fi
}

# quoted prints words as one would type them.
quoted() {
  local word
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9_./:=,@%+-]*) printf " '%s'" "${word//\'/\'\\\'\'}" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
}

# run shows a pinfold command line, runs it with its output indented, and
# leaves its exit code in $code and its output in $work/out.
run() {
  printf '%s$ pinfold run%s%s\n' "$dim" "$(quoted "$@")" "$plain"
  code=0
  "$pinfold" run "${mark[@]}" "$@" >"$work/out" 2>&1 </dev/null || code=$?
  head -n 12 "$work/out" | cut -c1-200 | sed 's/^/   | /'
  printf '   exit code %d\n' "$code"
}
code_is() { [[ $code -eq $1 ]]; }
code_is_not() { [[ $code -ne $1 ]]; }
says() { grep -q -- "$1" "$work/out"; }
silent_about() { ! grep -q -- "$1" "$work/out"; }
no_process() { ! grep -sqaxz -- "$1" /proc/[0-9]*/cmdline; } # with that argument

tour() {
  chapter "1. Streams and exit codes come through as they are"
  run -c 'echo out; echo err >&2; exit 3'
  check "the exit code is the command's" code_is 3

  chapter "2. Who is it in there?"
  run -c 'id; pwd; grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status'
  check "not root, no capabilities, a system call filter" says 'Seccomp:.2'

  chapter "3. It wants to phone home"
  run -c 'ls /sys/class/net; curl -sS -m 5 http://169.254.169.254/latest/meta-data/'
  check "there is no network, not even the host" code_is_not 0

  chapter "4. It wants to remove everything"
  echo precious >"$work/project/file"
  run -v "$work/project:/project:ro" -c 'rm -rf --no-preserve-root / 2>&1 | grep -v /proc | tail -n 3; ls -l /project'
  check "what was mounted read-only is still there" test -s "$work/project/file"
  check "and so is this host" test -x /bin/sh

  chapter "5. A fork bomb"
  run --timeout 4s -c 'f() { f | f & }; f 2>/dev/null; sleep 60'
  check "it ended" code_is_not 0
  run -- echo 'the next sandbox does not notice'
  check "the machine goes on" code_is 0

  chapter "6. All memory"
  run --memory 128m -- python3 -c 'x = bytearray(1 << 33)
for i in range(0, len(x), 4096): x[i] = 1'
  check "the limit ends it, and says so" says 'memory'

  chapter "7. A timeout that the command tries to survive"
  run --timeout 1s -c 'setsid env -i sh -c "trap : TERM; sleep 987654" & sleep 987654'
  check "timed out" code_is 124
  check "nothing of it is alive" no_process 987654

  chapter "8. Secrets"
  note "on this host: PINFOLD_DEMO_HOST=hush-host"
  PINFOLD_DEMO_HOST=hush-host run -c env
  check "the host's environment does not get in" silent_about hush-host
  secrets

  if command -v docker >/dev/null; then
    chapter "9. What is left of all these sandboxes?"
    check "nothing" nothing_left
  fi
}

# secrets looks at a container from outside while it has a secret inside.
secrets() {
  # shellcheck disable=SC2016 # it is expanded inside
  local line='echo "${#TOKEN} bytes"; sleep 5'
  printf '%s$ pinfold run%s &%s\n' "$dim" "$(quoted --name "$sandbox" -e TOKEN=hush-token -c "$line")" "$plain"
  "$pinfold" run "${mark[@]}" --name "$sandbox" -e TOKEN=hush-token -c "$line" >"$work/out" 2>&1 </dev/null &
  background=$!
  local tries=0
  until grep -q bytes "$work/out" || [[ $((tries += 1)) -gt 300 ]]; do sleep 0.1; done
  sed 's/^/   | /' "$work/out"
  check "the command has it" says '10 bytes'
  if command -v docker >/dev/null; then
    docker inspect "$sandbox" >"$work/inspect" 2>/dev/null || true
    check "the engine, asked about the container, does not" no_secret_in_inspect
  fi
  wait "$background" || true
  background=
}
no_secret_in_inspect() { [[ -s $work/inspect ]] && ! grep -q hush-token "$work/inspect"; }
nothing_left() { [[ -z $(docker ps -aq --filter "label=pinfold-demo=$$") ]]; }

without_engine() {
  mark=()
  chapter "Without an engine there is no sandbox"
  run -- true
  check "pinfold says so and runs nothing" code_is 125
  chapter "On request, commands run on this host, with no isolation at all"
  run --backend process -c 'echo out; echo err >&2; exit 3'
  check "the exit code is the command's" code_is 3
  run --backend process --timeout 1s -c 'setsid env -i sh -c "trap : TERM; sleep 987654" & sleep 987654'
  check "timed out" code_is 124
  check "nothing of it is alive" no_process 987654
  chapter "For the real tour, get an engine as said above, then: make demo"
}

if "$root/hack/engine.sh"; then
  "$root/hack/images.sh" sandbox
  tour
else
  without_engine
fi
echo
[[ $wrong -eq 0 ]] || die "$wrong of the checks failed"
say "all of that was as it should be"
