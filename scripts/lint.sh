#!/bin/sh
# Layout, static analysis and shell scripts; nothing is changed. Ends with 1 when anything is found.
#   lint.sh [BUILD]      (a Meson build folder, default build-clang: clang-tidy wants clang's flags)
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-clang}
found=0

if [ ! -f "$build/compile_commands.json" ]; then
	echo "lint: $build has no compile_commands.json; run: CC=clang meson setup $build" >&2
	exit 2
fi

echo "lint: layout"
git ls-files '*.c' '*.h' '*.cc' | xargs clang-format --dry-run --Werror || found=1

echo "lint: clang-tidy"
git ls-files 'src/*.c' | xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet 2>&1 |
	grep -E '(error|warning):' | sort -u >"$build/tidy.txt" || true
cat "$build/tidy.txt"
[ ! -s "$build/tidy.txt" ] || found=1

# memleak does not know the cleanup attribute (LeakSanitizer looks for leaks); the unknown #error branches are other
# machines.
echo "lint: cppcheck"
git ls-files 'src/*.c' | xargs cppcheck --enable=warning,performance,portability --inline-suppr --quiet \
	--error-exitcode=1 -j "$(nproc)" --std=c11 -D__x86_64__ -D__linux__ -D_GNU_SOURCE \
	'-DLIBBPF_OPTS(type,name,...)=struct type name={0}' -Isrc -Ibpf "-I$build/src/cli" \
	--suppress=missingIncludeSystem --suppress=memleak --suppress=preprocessorErrorDirective || found=1

echo "lint: shell"
for script in scripts/*.sh bench/*.sh .ci/run; do
	[ ! -f "$script" ] || sh -n "$script" || found=1
done
exit $found
