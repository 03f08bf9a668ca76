#!/usr/bin/env bash
# Lints: golangci-lint in the version that .golangci.yml is written for, built
# into the user's cache the first time, and shellcheck where it is installed.
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=2.15.0

# find_linter prints the first golangci-lint of that version.
find_linter() {
  local candidate
  for candidate in "$cache/bin/golangci-lint" "$(command -v golangci-lint || true)" "$(go env GOPATH)/bin/golangci-lint"; do
    if [[ -x $candidate && $("$candidate" version --short 2>/dev/null) =~ ^v?$version$ ]]; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

cd "$root"
if ! linter=$(find_linter); then
  say "building golangci-lint v$version into $cache/bin; this takes a minute or two"
  GOBIN=$cache/bin GOFLAGS='' go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version" </dev/null
  linter=$cache/bin/golangci-lint
fi

failed=0
"$linter" config verify || failed=1
"$linter" run --allow-serial-runners --timeout 20m "$@" || failed=1

mapfile -t scripts < <(git -c safe.directory='*' ls-files '*.sh' .ci/run)
for script in "${scripts[@]}"; do
  bash -n "$script" || failed=1
done
if command -v shellcheck >/dev/null; then
  shellcheck -x "${scripts[@]}" || failed=1
else
  say "shellcheck is not installed: the scripts' syntax is checked, no more"
fi

# A document that names a test which is not there proves nothing.
# shellcheck disable=SC2016 # those are backquotes of Markdown
for name in $(grep -oh '`Test[A-Za-z0-9_]*`' SECURITY.md docs/*.md | tr -d '`' | sort -u); do
  if ! grep -rqs --include='*_test.go' "^func $name(" .; then
    say "a document names $name, which is no test"
    failed=1
  fi
done
exit "$failed"
