"""Databases that DBOS has made its tables in, told as URLs: each test gets a copy of its own."""

import atexit
import functools
import logging
import secrets
import shutil
import tempfile
from pathlib import Path

import psycopg
from dbos import DBOS
from places import server

DATABASES = ["sqlite", "postgres"]


def new_database(kind: str, folder: Path) -> str:
    """A database that no other test uses."""
    if kind == "sqlite":
        path = folder / "agents.db"
        shutil.copyfile(_file(), path)
        return f"sqlite:///{path}"
    name = f"test_{secrets.token_hex(8)}"
    with psycopg.connect(server("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {_template()}")
    return _named(name)


@functools.cache
def _file() -> Path:
    folder = tempfile.mkdtemp(prefix="toolrelay-dbos-")
    atexit.register(shutil.rmtree, folder)
    path = Path(folder) / "template.db"
    _migrate(f"sqlite:///{path}")
    return path


@functools.cache
def _template() -> str:
    _migrate(_named("dbos_template"))
    return "dbos_template"


def _named(database: str) -> str:
    return server("postgres").rpartition("/")[0] + f"/{database}"


def _migrate(url: str) -> None:
    logging.getLogger("dbos").setLevel(logging.WARNING)
    DBOS.migrate(url)
