#!/bin/sh
# Prints commit and date of the sources (reproducible: date of the commit, or SOURCE_DATE_EPOCH).
#   version.sh SOURCE_DIR
set -eu
commit=$(git -C "$1" rev-parse --short=7 HEAD 2>/dev/null || echo unknown)
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$1" log -1 --format=%ct 2>/dev/null || date +%s)}
[ "$commit" = unknown ] || git -C "$1" diff --quiet HEAD -- 2>/dev/null || commit=$commit-dirty
printf 'commit: %s, built: %s\n' "$commit" "$(date -u -d "@$epoch" +%Y-%m-%d)"
