"""A real server that loads its program and then forks its workers (I4; contract 9.4)."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from places import DURABLE, new_place

SUPPORT = Path(__file__).parent / "support"


class Gunicorn:
    """Two workers that were forked from the process that loaded the program."""

    def __init__(self, place, *options):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            fork = ["-m", "gunicorn", "--preload", "--workers", "2", "--bind", f"fd://{listener.fileno()}"]
            quiet = ["--log-level", "warning", "--graceful-timeout", "10", "--no-control-socket"]
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore:This process:DeprecationWarning", *fork, *quiet, *options, "preloaded"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[listener.fileno()],
                env={**os.environ, "PYTHONPATH": str(SUPPORT), "TOOLRELAY_PLACE": place},
            )

    def ask(self, path):
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as reply:
            return json.load(reply)

    def ask_all(self, *paths):
        with ThreadPoolExecutor(len(paths)) as pool:
            return list(pool.map(self.ask, paths))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        told = self.process.communicate(timeout=30)
        return self.process.returncode, *told


@pytest.fixture
def serve():
    """Starts a server; none outlives its test."""
    started = []

    def serve(place, *options):
        started.append(Gunicorn(place, *options))
        return started[-1]

    yield serve
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


def converse(server):
    """Halts and answers, several at a time; the processes that served them."""
    names = [f"c-{number}" for number in range(12)]
    halted = server.ask_all(*(f"/halt?{name}" for name in names))
    answered = server.ask_all(*(f"/answer?{name}" for name in ("warm", *names)))
    assert {reply["told"] for reply in halted} == {"pending"}
    assert [reply["told"] for reply in answered] == [f"{name}: 4 m" for name in ("warm", *names)]
    assert {reply["loaded_by"] for reply in (*halted, *answered)} == {server.process.pid}
    return {reply["worker"] for reply in (*halted, *answered)}


@pytest.mark.parametrize("kind", DURABLE)
def test_i4_workers_of_a_preloaded_program_serve_its_conversations(serve, tmp_path, kind):
    server = serve(new_place(kind, tmp_path))
    met = server.ask_all("/meet", "/meet")
    workers = {reply["worker"] for reply in met}
    assert (len(workers), {reply["told"] for reply in met}) == (2, {"pending"})
    assert converse(server) <= workers
    assert server.stop() == (0, "", "")


@pytest.mark.parametrize("kind", DURABLE)
def test_i4_threads_of_such_workers_serve_them_too(serve, tmp_path, kind):
    server = serve(new_place(kind, tmp_path), "--worker-class", "gthread", "--threads", "4")
    assert server.process.pid not in converse(server)
    assert server.stop() == (0, "", "")
