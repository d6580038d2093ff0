#!/bin/sh
# compose-passwords.sh sets the passwords of the users of postgres-roles.sql. The image of Postgres runs it once, after
# postgres-roles.sql, when it creates its database.
set -eu
password() { cut -d: -f5 "/run/secrets/$1"; }
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres \
	--set=owner="$(password owner.pgpass)" --set=worker="$(password worker.pgpass)" <<'SQL'
ALTER ROLE deadman_owner PASSWORD :'owner';
ALTER ROLE deadman PASSWORD :'worker';
SQL
