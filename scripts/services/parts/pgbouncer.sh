# shellcheck shell=bash
# PgBouncer from Debian (1.18), before the PostgreSQL of this directory: a session of the server for
# each transaction, and few of them, so that it is found out if a session is relied on.
ports pgbouncer PGBOUNCER_PORT=6432

pgbouncer_install() {
  postgres_install
  need_apt pgbouncer:pgbouncer
}
pgbouncer_bin() { PATH="$PATH:/usr/sbin:/sbin" command -v pgbouncer; }
pgbouncer_version() { "$(pgbouncer_bin)" --version | sed -n 's/^PgBouncer \(.*\)/\1/p'; }
pgbouncer_ports() { echo "$PGBOUNCER_PORT"; }
pgbouncer_ready() {
  [ "$("$(postgres_bin)/psql" -XAtq -h "$HOST" -p "$PGBOUNCER_PORT" -U postgres -c 'select 1' postgres)" = 1 ]
}
pgbouncer_env() { echo "PGBOUNCER_URL=postgres://postgres@$HOST:$PGBOUNCER_PORT/test?sslmode=disable"; }
pgbouncer_start() {
  local d="$CONF_DIR/pgbouncer" as
  need_free "$PGBOUNCER_PORT"
  as=$(user_cmd postgres)
  mkdir -p "$d"
  echo '"postgres" ""' >"$d/users.txt"
  cat >"$d/pgbouncer.ini" <<EOF
[databases]
* = host=$HOST port=$POSTGRES_PORT
[pgbouncer]
listen_addr = $HOST
listen_port = $PGBOUNCER_PORT
unix_socket_dir =
auth_type = trust
auth_file = $d/users.txt
pool_mode = transaction
default_pool_size = 3
max_client_conn = 500
server_idle_timeout = 5
${PGBOUNCER_SETTINGS:-}
EOF
  chmod -R a+rX "$d"
  # shellcheck disable=SC2086
  launch pgbouncer $as "$(pgbouncer_bin)" "$d/pgbouncer.ini"
  wait_for pgbouncer 30 pgbouncer_ready
}
