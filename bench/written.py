"""How many bytes have been written so far on behalf of a store, as the one who writes them counts."""

from __future__ import annotations

import subprocess
from pathlib import Path


def bytes_written(place: str) -> int:
    """Bytes of this process's writes to files, of PostgreSQL's write-ahead log, or of Redis's append-only file.

    For SQLite that is its log and what is copied from there into the file. (`wchar` of `/proc/self/io` also has the few
    bytes by which threads wake each other; the figures of a socket are not in it, for nothing here has one.)
    """
    kind, where, *_ = place.split(" ")
    if kind == "sqlite":
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))
    if kind == "postgres":
        return int(_told(["psql", where, "-Atc", "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"]))
    lines = _told(["redis-cli", "-u", where, "INFO", "persistence"]).splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith("aof_current_size:"))


def _told(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
