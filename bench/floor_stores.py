"""The floors of the stores: as many commits of as many bytes, and as much reading, by plain clients.

    python bench/floor_stores.py PLACE MESSAGES NEW_BYTES PASSES

For each pass there is a conversation with MESSAGES. A pass reads them and makes two commits, twice: what a halt and a
resume have to do at least, for the prompt, the halt, the answer and the end are each durable on their own. A quarter of
NEW_BYTES is in each commit. Prints the same line of JSON as `halts.py`.
"""

from __future__ import annotations

import json
import random
import sqlite3
import string
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import workload
from written import bytes_written


class Floor(Protocol):
    """A table of messages, or what stands for it. `add` commits."""

    def add(self, conversation: int, bodies: Sequence[tuple[int, bytes]]) -> None: ...
    def read(self, conversation: int) -> Sequence[object]: ...
    def close(self) -> None: ...


class SqliteFloor:
    """Python's `sqlite3`; durable as the store is, pages of SQLite's usual size."""

    def __init__(self, path: str) -> None:
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("CREATE TABLE IF NOT EXISTS message (place INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT")

    def add(self, conversation: int, bodies: Sequence[tuple[int, bytes]]) -> None:
        self._file.execute("BEGIN IMMEDIATE")
        rows = [(conversation << 32 | at, body) for at, body in bodies]
        self._file.executemany("INSERT INTO message VALUES (?, ?)", rows)
        self._file.execute("COMMIT")

    def read(self, conversation: int) -> Sequence[object]:
        places = conversation << 32, conversation + 1 << 32
        return self._file.execute("SELECT place, body FROM message WHERE place >= ? AND place < ?", places).fetchall()

    def close(self) -> None:
        self._file.close()


class PostgresFloor:
    """psycopg; each commit is one statement."""

    def __init__(self, url: str, name: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._name = name
        self._connection.execute(
            f"CREATE TABLE {name} (conversation bigint, seq bigint, body bytea, PRIMARY KEY (conversation, seq))"
        )

    def add(self, conversation: int, bodies: Sequence[tuple[int, bytes]]) -> None:
        self._connection.execute(
            f"INSERT INTO {self._name} SELECT %s, * FROM unnest(%s::bigint[], %s::bytea[])",
            (conversation, [at for at, _ in bodies], [body for _, body in bodies]),
            binary=True,
        )

    def read(self, conversation: int) -> Sequence[object]:
        read = f"SELECT seq, body FROM {self._name} WHERE conversation = %s"
        return self._connection.execute(read, (conversation,), binary=True).fetchall()

    def close(self) -> None:
        self._connection.close()


class RedisFloor:
    """redis-py; a list of messages."""

    def __init__(self, url: str, name: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url)
        self._name = name

    def add(self, conversation: int, bodies: Sequence[tuple[int, bytes]]) -> None:
        self._client.rpush(f"{self._name}:{conversation}", *(body for _, body in bodies))

    def read(self, conversation: int) -> Sequence[object]:
        return self._client.lrange(f"{self._name}:{conversation}", 0, -1)

    def close(self) -> None:
        self._client.close()


FLOORS: dict[str, Callable[..., Floor]] = {"sqlite": SqliteFloor, "postgres": PostgresFloor, "redis": RedisFloor}


def measure(place: str, messages: int, new_bytes: int, passes: int) -> dict[str, float]:
    """CPU, time and bytes written of a pass."""
    kind, where, *name = place.split(" ")
    history = [json.dumps(message).encode() for message in json.loads(workload.history_document(messages))]
    quarter = "".join(random.Random(0).choices(string.ascii_letters + string.digits, k=new_bytes // 4)).encode()

    floor = FLOORS[kind](where, *name)
    for conversation in range(passes + 1):
        floor.add(conversation, list(enumerate(history)))
    if kind == "sqlite":
        floor.close()
        floor = FLOORS[kind](where, *name)

    def make(conversation: int) -> None:
        for start in (0, 2):
            assert len(floor.read(conversation)) == messages + start
            for at in range(start, start + 2):
                floor.add(conversation, [(messages + at, quarter)])

    written = bytes_written(place)
    cpu, wall = workload.cpu_us(), time.perf_counter()
    for conversation in range(passes):
        make(conversation)
    cpu, wall = workload.cpu_us() - cpu, time.perf_counter() - wall
    floor.close()
    written = bytes_written(place) - written
    return {"cpu_us": cpu / passes, "wall_us": wall * 1e6 / passes, "bytes_written": written / passes}


def main() -> None:
    """Read the arguments, measure, print."""
    place, *numbers = sys.argv[1:]
    print(json.dumps(measure(place, *map(int, numbers))))


if __name__ == "__main__":
    main()
