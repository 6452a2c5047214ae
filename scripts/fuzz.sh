#!/bin/sh
# Fuzzes every decoder of outside bytes, one after the other: scripts/fuzz.sh [TIME]
set -eu
cd "$(dirname "$0")/.."
time=${1:-60s}
grep -rl '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
	dir=$(dirname "$file")
	grep -o '^func Fuzz[A-Za-z0-9_]*' "$file" | sed 's/^func //' | while read -r name; do
		echo "$dir $name"
		go test "$dir" -run '^$' -fuzz "^$name\$" -fuzztime "$time"
	done
done
