#!/bin/sh
# Installs what is missing, builds with gcc and clang, runs every test and the linters.
# Last line: "N passed, N failed, N skipped". Exit 0 only without failures. Root is needed for the kernel tests.
#   test.sh [--quick]      quick: no second compiler, no sanitizers, no linters
set -eu
cd "$(dirname "$0")/.."
quick=no
[ "${1:-}" != --quick ] || quick=yes

./scripts/install-deps.sh test
exec /usr/bin/python3 tests/run.py --quick="$quick"
