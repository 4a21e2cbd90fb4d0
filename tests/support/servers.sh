#!/usr/bin/env bash
# Real servers for the tests, from the machine's packages: PostgreSQL, PgBouncer in front of it, Redis, a Redis cluster of
# two. They listen on loopback, keep their data in a folder of their own, and end with the process that they are for.
#
#   servers.sh start NAME PROCESS [OPTION...]   starts NAME unless it runs already, and prints its URL
#   servers.sh stop NAME PROCESS                kills it; what it keeps stays
#   servers.sh again NAME PROCESS               starts it anew, at the same URL, with the same options
#
# NAME is postgres, pgbouncer, redis or cluster, or such a word with a suffix for a server of a test's own: redis.full.
# OPTIONs go to the server. A file that it reads is given as @file: it may not be the server's to read where it is, for
# a server does not run as root. Exit code 69: the machine lacks the program; what is printed says which.
set -euo pipefail

verb=$1 name=$2 process=$3
shift 3
kind=${name%%.*}
started=$(cut -d ' ' -f 22 "/proc/$process/stat") # a process id alone may come again
session=${TMPDIR:-/tmp}/toolrelay-servers-$process-$started
home=$session/$name
script=$(realpath "$0")

# No server starts as root.
as_nobody=()
if [[ $(id -u) == 0 ]]; then
    as_nobody=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi

# Debian keeps these out of the way.
PATH=$PATH:/usr/sbin:$(printf '%s:' /usr/lib/postgresql/*/bin)
case $kind in
postgres) programs="initdb postgres pg_isready" ;;
pgbouncer) programs="postgres pgbouncer" ;;
redis) programs=redis-server ;;
cluster) programs="redis-server redis-cli" ;;
esac
for program in $programs; do
    if ! type -P "$program" >/dev/null; then
        echo "this machine has no $program"
        exit 69
    fi
done

# What was started is reached as soon as its port answers.
await_port() {
    local tries
    for tries in {1..200}; do
        if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return 0; fi
        kill -0 "$(cat "$2" 2>/dev/null || echo $$)" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

# Servers are given ports below those that the system hands out, and try the next one if somebody has it.
any_port() {
    echo $((10000 + RANDOM % 20000))
}

run_postgres() {
    local port=$1
    shift
    "${as_nobody[@]}" postgres -D "$home/data" -p "$port" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c fsync=off -c max_connections=200 "$@" >>"$home/log" 2>&1 &
    echo $! >"$home/pid"
    await_port "$port" "$home/pid" || return 1
    # It lets nobody in before it has recovered.
    local tries
    for tries in {1..200}; do
        if pg_isready -q -h 127.0.0.1 -p "$port"; then return 0; fi
        sleep 0.05
    done
    return 1
}

start_postgres() {
    "${as_nobody[@]}" initdb --no-sync -A trust -U toolrelay -E UTF8 --locale=C.UTF-8 \
        -D "$home/data" >"$home/log"
    local port
    port=$(any_port)
    run_postgres "$port" "$@" || return 1
    echo "postgresql://toolrelay@127.0.0.1:$port/postgres" >"$home/url.new"
}

run_redis() {
    local port=$1
    shift
    "${as_nobody[@]}" redis-server --bind 127.0.0.1 --port "$port" --dir "$home/data" --save '' \
        --appendonly yes --appendfsync always "$@" >>"$home/log" 2>&1 &
    echo $! >"$home/pid"
    await_port "$port" "$home/pid"
}

start_redis() {
    local port
    port=$(any_port)
    run_redis "$port" "$@" || return 1
    echo "redis://127.0.0.1:$port" >"$home/url.new"
}

run_pgbouncer() {
    sed -i "s/^listen_port = .*/listen_port = $1/" "$home/data/pgbouncer.ini"
    "${as_nobody[@]}" pgbouncer -q "$home/data/pgbouncer.ini" >>"$home/log" 2>&1 &
    echo $! >"$home/pid"
    await_port "$1" "$home/pid"
}

start_pgbouncer() {
    local server port
    server=$("$script" start postgres "$process")
    server=${server##*:}
    cat >"$home/data/pgbouncer.ini" <<END
[databases]
* = host=127.0.0.1 port=${server%%/*} user=toolrelay
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = 0
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
END
    port=$(any_port)
    run_pgbouncer "$port" || return 1
    echo "postgresql://toolrelay@127.0.0.1:$port/postgres" >"$home/url.new"
}

# Two nodes with half of the slots each. The name stands for the first; the second is one more server.
start_cluster() {
    local one two cluster=(--cluster-enabled yes --cluster-node-timeout 2000)
    one=$("$script" start "redis.$name-1" "$process" "${cluster[@]}")
    two=$("$script" start "redis.$name-2" "$process" "${cluster[@]}")
    redis-cli -u "$one" CLUSTER ADDSLOTSRANGE 0 8191
    redis-cli -u "$two" CLUSTER ADDSLOTSRANGE 8192 16383
    redis-cli -u "$one" CLUSTER MEET 127.0.0.1 "${two##*:}"
    until redis-cli -u "$one" CLUSTER INFO | grep -q cluster_state:ok &&
        redis-cli -u "$two" CLUSTER INFO | grep -q cluster_state:ok; do
        sleep 0.05
    done
    echo "$one" >"$home/url.new"
    echo $$ >"$home/pid"
} >>"$home/log" 2>&1

# Ends the servers when the process has ended, and takes their data away.
watch_over() {
    while [[ $(cut -d ' ' -f 22 "/proc/$process/stat" 2>/dev/null) == "$started" ]]; do
        sleep 0.5
    done
    local pid
    for pid in "$session"/*/pid; do
        kill -9 "$(cat "$pid")" 2>/dev/null || true
    done
    rm -rf "$session"
}

kill_server() {
    local pid
    pid=$(cat "$home/pid")
    case $kind in
    postgres) kill -QUIT "$pid" ;; # without its children it would leave them behind
    *) kill -9 "$pid" ;;
    esac
    # Where nobody waits for it, it stays as a zombie.
    while grep -qs '^State:.[^ZX]' "/proc/$pid/status"; do
        sleep 0.01
    done
    rm -f "$home/data/postmaster.pid"
}

umask 022
mkdir -p "$session"
exec 9>"$session/lock.$kind" 8>"$session/lock"
flock 9
case $verb in
start)
    if [[ ! -e $home/url ]]; then
        for tries in {1..5}; do
            rm -rf "$home"
            mkdir -p "$home/data" "$home/files"
            options=()
            for option in "$@"; do
                if [[ $option =~ ^([a-z_]*=)?@(.*) ]]; then
                    install -m 600 -t "$home/files" "${BASH_REMATCH[2]}"
                    option=${BASH_REMATCH[1]}$home/files/$(basename "$option")
                fi
                options+=("$option")
            done
            touch "$home/log"
            if [[ $(id -u) == 0 ]]; then chown -R nobody:nogroup "$home"; fi
            if "start_$kind" "${options[@]}" 9>&- 8>&-; then break; fi
            tail "$home/log" >&2
        done
        declare -p options >"$home/options"
        mv "$home/url.new" "$home/url"
        if flock -n 8; then
            # Whoever was first watches, and holds this lock as long.
            watch_over </dev/null >/dev/null 2>&1 9>&- &
        fi
    fi
    cat "$home/url"
    ;;
stop) kill_server ;;
again)
    port=$(cat "$home/url")
    port=${port##*:}
    source "$home/options"
    "run_$kind" "${port%%/*}" "${options[@]}" 9>&- 8>&-
    ;;
esac
