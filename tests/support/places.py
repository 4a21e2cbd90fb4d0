"""Places for conversations, told in words that another process understands: a file, or a part of a server.

The servers are real ones, of the machine's packages. They are started once, by whoever needs them first, and end with
the process that did. The benchmarks use this module, too.
"""

import functools
import os
import secrets
import subprocess
from pathlib import Path

from toolrelay import PostgresStore, RedisStore, SqliteStore

SCRIPT = Path(__file__).resolve().parent / "servers.sh"
DURABLE = ["sqlite", "postgres", "redis"]


class NoServerError(Exception):
    """The machine lacks a program; the text says which."""


@functools.cache
def start(name: str, *options: str) -> str:
    """The URL of a server, or `NoServerError`."""
    command = [SCRIPT, "start", name, str(os.getpid()), *options]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if told.returncode == 69:
        raise NoServerError(told.stdout.strip())
    assert told.returncode == 0, f"{name}: {told}"
    return told.stdout.strip()


def server(name: str) -> str:
    """The URL of a server. Without its program the test is skipped, unless `TOOLRELAY_SERVERS=required`."""
    import pytest  # a worker process does without

    try:
        return start(name)
    except NoServerError as missing:
        if os.environ.get("TOOLRELAY_SERVERS") == "required":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def stop(name: str) -> None:
    """Kills a server. What it keeps stays."""
    subprocess.run([SCRIPT, "stop", name, str(os.getpid())], check=True)


def again(name: str) -> None:
    """Starts a server that was stopped."""
    subprocess.run([SCRIPT, "again", name, str(os.getpid())], check=True)


def new_place(kind: str, folder: Path) -> str:
    """A place that no other test uses."""
    if kind == "sqlite":
        return f"sqlite {folder / 'conversations.db'}"
    return f"{kind} {server(kind)} test-{secrets.token_hex(8)}"


def open_store(place: str) -> SqliteStore | PostgresStore | RedisStore:
    """A store on a place, as each process opens one of its own."""
    kind, where, *part = place.split(" ", 2)
    if kind == "sqlite":
        return SqliteStore(where)
    if kind in ("postgres", "pgbouncer"):
        return PostgresStore(where, schema=part[0])
    return RedisStore(where, prefix=part[0])
