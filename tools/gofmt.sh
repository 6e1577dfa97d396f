#!/usr/bin/env bash
# Go sources are formatted as gofmt does it; says which are not.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v gofmt >/dev/null || PATH=$PATH:$(go env GOROOT 2>/dev/null)/bin
if ! command -v gofmt >/dev/null; then
  echo "gofmt: no Go toolchain on PATH; fix: run \`make venv\`, which installs one" >&2
  exit 4
fi
wrong=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 -r gofmt -l)
if [ -n "$wrong" ]; then
  printf 'gofmt: not formatted; fix: gofmt -w on each\n%s\n' "$wrong" >&2
  exit 1
fi
