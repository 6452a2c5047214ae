#!/bin/sh
# Not before an upgrade, which restarts the service when the new version is there.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	[ ! -d /run/systemd/system ] || systemctl disable --now tidemill.service
fi
