#!/bin/sh
# Makes sure that tools of some tests are installed, from Debian if possible:
# scripts/need.sh node | python | chromium | firefox | webkit | cc | shell | package
set -eu

install() {
	if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
		apt-get -o DPkg::Lock::Timeout=300 update -q &&
			DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q "$@"
		exit
	fi
	echo "$what is needed: install it and try again" >&2
	exit 1
}

case "$1" in
node)
	what="Node.js 20.20 or newer with npm (for the SDK tests)"
	if command -v npm >/dev/null 2>&1 &&
		node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || a === 20 && b >= 20 ? 0 : 1)'; then
		exit 0
	fi
	install nodejs npm
	;;
python)
	what="Python 3 with venv (for the SDK tests)"
	python3 -c 'import ensurepip, venv' 2>/dev/null || install python3 python3-venv
	;;
chromium)
	what="Chromium (for the tests in a browser)"
	command -v chromium >/dev/null 2>&1 || install chromium
	;;
firefox) # not every Debian has it: its test is left out then
	what="Firefox ESR (for the console in a second browser)"
	command -v firefox-esr >/dev/null 2>&1 || (install firefox-esr) ||
		echo "!!! no page of the console is looked at in Firefox: firefox-esr cannot be installed here" >&2
	;;
webkit)
	what="WebKitGTK with its driver, and Xvfb (for the console in the engine of Safari)"
	for tool in WebKitWebDriver Xvfb; do
		command -v "$tool" >/dev/null 2>&1 || install webkit2gtk-driver xvfb
	done
	;;
shell)
	what="bash, curl and sqlite3 (for the commands in the documentation)"
	for tool in bash curl sqlite3; do
		command -v "$tool" >/dev/null 2>&1 || install bash curl sqlite3
	done
	;;
package)
	what="a Debian, with ssh-keygen, man and systemd-analyze (for the tests of releases)"
	for tool in dpkg ssh-keygen man systemd-analyze; do
		command -v "$tool" >/dev/null 2>&1 || install openssh-client man-db systemd
	done
	;;
cc)
	what="a C compiler (for the race detector; the product itself needs none)"
	command -v gcc >/dev/null 2>&1 || command -v cc >/dev/null 2>&1 || install gcc libc6-dev
	;;
*)
	echo "usage: need.sh node | python | chromium | firefox | webkit | cc | shell | package" >&2
	exit 2
	;;
esac
