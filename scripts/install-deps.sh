#!/bin/sh
# Installs what building and testing need, from the distribution's own packages.
#   install-deps.sh [build|test]     (default: test, which includes build)
# Debian 12/13 and Ubuntu 24.04; run as root.
set -eu

what=${1:-test}
build_packages="gcc libc6-dev make meson ninja-build pkg-config clang llvm
 libbpf-dev libelf-dev libdw-dev libsqlite3-dev libyaml-dev libjansson-dev
 libevent-dev libssl-dev libzstd-dev bpftool sqlite3"
test_packages="g++ lld libcmocka-dev clang-format clang-tidy cppcheck python3
 python3-pytest python3-yaml strace util-linux"

case $what in
build) packages=$build_packages ;;
test) packages="$build_packages $test_packages" ;;
*) echo "install-deps: unknown set '$what'; use build or test" >&2; exit 2 ;;
esac

missing=
for package in $packages; do
	dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
		missing="$missing $package"
done
# Sanitizer runtimes of clang live in a package that carries clang's version.
if [ "$what" = test ]; then
	version=$(clang --version 2>/dev/null | sed -n 's/.*clang version \([0-9]*\).*/\1/p' | head -n 1)
	[ -z "$version" ] || dpkg-query -W "libclang-rt-$version-dev" >/dev/null 2>&1 ||
		missing="$missing libclang-rt-$version-dev"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "install-deps: these packages are missing:$missing; run: sudo $0 $what" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "install-deps: package lists could not be refreshed; using those at hand" >&2
# shellcheck disable=SC2086 # a list of words on purpose
apt-get install -y -qq --no-install-recommends $missing >/dev/null
# A fresh clang may bring the need for its own sanitizer runtimes.
[ "$what" != test ] || [ -n "${INSTALL_DEPS_AGAIN:-}" ] || INSTALL_DEPS_AGAIN=1 exec "$0" "$what"
