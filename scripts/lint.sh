#!/bin/sh
# Formatting, vet and staticcheck; types for Windows; the small binary; the list of flaky tests; what
# clients of the last release would notice; known vulnerabilities.
set -eu
cd "$(dirname "$0")/.."
unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
	echo "not formatted by gofmt:" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet -tags e2e,servers,webkit ./...
go run ./internal/typecheck -os windows ./cmd/... ./cli/... ./connect/... ./internal/... ./systems/...
go vet -tags embedded ./cmd/tidemill ./systems
make -s embedded
go test -tags embedded ./systems ./internal/telemetry
go tool staticcheck -tags e2e,servers,webkit ./...
go run ./test/stage -check
go run ./internal/apidiff
# Known vulnerabilities in called code. GOVULNDB names another copy of the database.
status=0
found=$(go tool govulncheck ${GOVULNDB:+-db "$GOVULNDB"} ./... 2>&1) || status=$?
case "$status:$found" in
0:*) ;;
*"fetching vulnerabilities"*)
	echo "!!! The database of vulnerabilities cannot be reached: NOTHING WAS CHECKED AGAINST IT." >&2
	echo "!!! Run make lint where it can be, or name a copy in GOVULNDB. $found" >&2
	[ "${GOVULNCHECK:-}" != required ] || exit 1
	;;
*)
	echo "$found" >&2
	exit 1
	;;
esac
echo "lint: ok"
