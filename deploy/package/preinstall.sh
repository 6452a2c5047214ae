#!/bin/sh
# The user comes before the files, some of which are its own.
set -e
getent group tidemill >/dev/null || groupadd --system tidemill
getent passwd tidemill >/dev/null ||
	useradd --system --gid tidemill --home-dir /var/lib/tidemill --no-create-home --shell /usr/sbin/nologin tidemill
