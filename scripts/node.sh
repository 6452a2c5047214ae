#!/bin/sh
# Makes sure that Node.js and npm are there, which the SDK tests need.
set -eu
if command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 &&
	node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || a === 20 && b >= 20 ? 0 : 1)'; then
	exit 0
fi
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q nodejs npm
	exit 0
fi
echo "Node.js 20.20 or newer and npm are needed for the SDK tests: install them and try again" >&2
exit 1
