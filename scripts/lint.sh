#!/bin/sh
# Formatting, vet and staticcheck, for every platform that is shipped; the list of flaky
# tests; govulncheck where its database can be reached.
set -eu
cd "$(dirname "$0")/.."
unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
	echo "not formatted by gofmt:" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet ./...
go vet -tags e2e,servers ./test/...
GOOS=windows go vet ./cmd/... ./connect/... ./internal/...
go tool staticcheck ./...
go tool staticcheck -tags e2e,servers ./test/...
go run ./test/stage -check
if command -v govulncheck >/dev/null 2>&1; then
	govulncheck ./... || { [ "${GOVULNCHECK:-}" = optional ] || exit 1; }
else
	echo "govulncheck is not installed: left out"
fi
echo "lint: ok"
