#!/bin/sh
# Runs systemd as the first process of namespaces of its own, with the unit alone: systemd.sh FOLDER.
# The folder has units/, etc/ (as /etc/tidemill) and the program; processes, mounts and control
# groups of the machine are not touched. It ends with the process that started it.
set -eu
folder=$1
case "${2:-outside}" in
outside)
	for group in "$folder"/groups/*; do # the test has made them
		echo $$ >"$(readlink "$group")/cgroup.procs"
	done
	exec unshare --fork --pid --mount --uts --ipc --cgroup --kill-child --mount-proc sh "$0" "$folder" inside
	;;
inside)
	mount --make-rprivate /
	[ ! -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup # ours alone
	mount -t tmpfs tmpfs /run
	mkdir -p /run/systemd /run/lock
	cp -a /etc /run/etc
	mount --bind /run/etc /etc
	mount -t tmpfs tmpfs /var/lib
	mount -t tmpfs tmpfs /usr/local/bin
	install -m 0755 "$folder/tidemill" /usr/local/bin/
	useradd --system --home-dir /var/lib/tidemill --no-create-home --shell /usr/sbin/nologin tidemill
	mkdir -p /etc/tidemill
	mount --bind "$folder/etc" /etc/tidemill
	chgrp tidemill /etc/tidemill /etc/tidemill/tidemill.yaml
	exec env -i container=tests SYSTEMD_UNIT_PATH="$folder/units" PATH=/usr/local/bin:/usr/bin:/bin /lib/systemd/systemd --system --unit=default.target --show-status=no
	;;
esac
