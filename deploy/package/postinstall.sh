#!/bin/sh
# The service is not started: what it listens on is decided first. After an upgrade it runs the new
# version, if it ran.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart tidemill.service
fi
# Debian says "configure" and the version before, RPM how many versions there are.
if [ "$1" = configure ] && [ -z "$2" ] || [ "$1" = 1 ]; then
	echo "Tidemill is installed. Its configuration is in /etc/tidemill. Start it:"
	echo "  systemctl enable --now tidemill"
fi
