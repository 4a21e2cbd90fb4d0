"""A server that streams more than anybody takes."""

import select
import socket
import threading
from pathlib import Path

from streamed import delta, end


class Flood:
    """A server that streams without end, and notices when it cannot send."""

    def __init__(self, pieces: int, size: int) -> None:
        self.is_stuck = threading.Event()
        self.go_on = threading.Event()
        self.sent = 0
        self._piece = delta(content="x" * size)
        self._pieces = pieces
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, self._listener:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            for _ in range(self._pieces):
                if not select.select([], [connection], [], 1.0)[1]:
                    self.is_stuck.set()
                    self.go_on.wait(30)
                connection.sendall(self._piece)
                self.sent += len(self._piece)
            connection.sendall(b"".join(end()))


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
