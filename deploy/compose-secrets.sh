#!/bin/sh
# compose-secrets.sh [FOLDER] creates the secrets of compose.yaml, by default in deploy/secrets. Existing secrets are kept.
# Other users cannot enter the folder; its files are readable, because each container has a different user.
set -eu
dir=${1:-$(dirname "$0")/secrets}
mkdir -p "$dir"
chmod 0700 "$dir"
cd "$dir"

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

# keep FILE TEXT writes a missing file atomically.
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
