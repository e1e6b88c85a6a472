#!/bin/sh
# From a fresh machine to a first trace: installs what is missing, builds, traces the built-in simulated training job
# with the real kernel probes, then shows what was recorded.
#   sudo ./scripts/quickstart.sh [SECONDS]     (default 15)
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-15}
case $seconds in
'' | *[!0-9]* | 0) echo "quickstart: '$seconds' is not a number of seconds" >&2; exit 2 ;;
esac

./scripts/install-deps.sh build
[ -f build/build.ninja ] || meson setup build >/dev/null
meson compile -C build >/dev/null
mkdir -p bin
install -m 755 build/src/cli/ingero bin/ingero

state=$(bin/ingero check --json | tr -d '\n' | sed -n 's/.*"name": "Trial probe", *"pass": \([a-z]*\)\(, *"optional": true\)\{0,1\}, *"value": "\([^"]*\)".*/\1/p')
if [ "$state" != true ]; then
	echo "quickstart: this machine or user may not load BPF programs; \`bin/ingero check\` says why (try sudo)" >&2
	bin/ingero check || true
	exit 0
fi

work=$(mktemp -d)
job=
clean_up() {
	[ -z "$job" ] || kill "$job" 2>/dev/null || true
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The job runs a little longer than the trace, so that its end is not part of the picture.
build/sim/sim-train --seconds $((seconds + 5)) >"$work/job.json" &
job=$!
bin/ingero trace --pid "$job" --duration "${seconds}s" --db "$work/quickstart.db"

echo
echo "What the database of this trace says:"
bin/ingero query --db "$work/quickstart.db" --since 1h
