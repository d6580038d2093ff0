#!/bin/sh
# compose-secrets.sh [FOLDER] makes the secrets of compose.yaml, in deploy/secrets where no folder is named. What is there
# stays. The folder is closed to other users; its files are readable, because each container has a user of its own.
set -eu
dir=${1:-$(dirname "$0")/secrets}
mkdir -p "$dir"
chmod 0700 "$dir"
cd "$dir"

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

# keep FILE TEXT writes a file that is not there yet, whole or not at all.
keep() {
	[ -e "$1" ] && return
	printf '%s\n' "$2" >"$1.new"
	chmod 0444 "$1.new"
	mv "$1.new" "$1"
}

keep postgres.password "$(random)"
keep owner.pgpass "*:*:*:deadman_owner:$(random)"
keep worker.pgpass "*:*:*:deadman:$(random)"
keep nats.token "nats_$(random)" # the server would read digits as a number
keep nats.env "DEADMAN_NATS_TOKEN=$(cat nats.token)"
