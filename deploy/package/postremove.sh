#!/bin/sh
# Data outlives the package, and with it the user that owns it.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ] || [ "$1" = 0 ]; then
	[ ! -d /var/lib/tidemill ] || echo "The data stays in /var/lib/tidemill. To delete it: rm -r /var/lib/tidemill; userdel tidemill"
fi
