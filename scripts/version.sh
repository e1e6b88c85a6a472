#!/bin/sh
# Prints version.h: version, commit and date of the sources (reproducible: date of the commit, or SOURCE_DATE_EPOCH).
#   version.sh VERSION SOURCE_DIR
set -eu
commit=$(git -C "$2" rev-parse --short=7 HEAD 2>/dev/null || echo unknown)
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$2" log -1 --format=%ct 2>/dev/null || date +%s)}
[ "$commit" = unknown ] || git -C "$2" diff --quiet HEAD -- 2>/dev/null || commit=$commit-dirty
printf '#define INGERO_VERSION "%s"\n#define INGERO_COMMIT "%s"\n#define INGERO_BUILT "%s"\n' \
	"$1" "$commit" "$(date -u -d "@$epoch" +%Y-%m-%d)"
