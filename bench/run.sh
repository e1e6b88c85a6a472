#!/bin/sh
# Measures what tracing costs. Root, BPF, some minutes.
#   run.sh [--build BUILD] [--quick] [SECTION...]      sections: see bench.py --help; default all
set -eu
cd "$(dirname "$0")/.."
build=build
if [ "${1:-}" = --build ]; then
	build=$2
	shift 2
fi
[ -f "$build/build.ninja" ] || meson setup "$build" >/dev/null
ninja -C "$build" src/cli/ingero sim/sim-spin sim/sim-train bench/store_bench bench/empty_pair bench/empty.bpf.o >/dev/null
exec /usr/bin/python3 bench/bench.py --build "$build" "$@"
