"""A model server that follows a script, byte for byte: it keeps what arrives, answers late, cuts, or never answers.

It speaks HTTP/1.1 on loopback, one thread per connection, and knows nothing of what the bytes mean. Replies of the
providers' shapes are made below.
"""

import json
import socket
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from toolrelay import Client, create_client


class Received(NamedTuple):
    """A request: the number of its connection, its head and its body as they came."""

    connection: int
    head: bytes
    body: bytes

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.split(":", 1) for line in lines if line)
        return {name.strip().lower(): value.strip() for name, value in pairs}

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    `pieces`: instead of a body, one network chunk each; an event among them is waited for. `delay`: seconds before the
    first byte; `after`: what is waited for before it. `cut`: only so many bytes of the body are sent, then the
    connection closes. `hangs`: nothing is sent, or no end behind the pieces; the connection stays open until the client
    closes it. `closes`: it closes after the reply.
    """

    body: bytes | str | dict[str, Any] = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    after: threading.Event | None = None
    cut: int | None = None
    hangs: bool = False
    closes: bool = False
    pieces: tuple[bytes | threading.Event, ...] = ()

    def head(self, length: int) -> bytes:
        framing = {"transfer-encoding": "chunked"} if self.pieces else {"content-length": str(length)}
        headers = {"content-type": "application/json", **framing, **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {self.status} Scripted\r\n{lines}\r\n".encode("latin-1")

    def payload(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


class ScriptedServer:
    """Replies in the order in which requests arrive, over all connections; without a script left it answers 500."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[Received] = []
        self.arrived = threading.Event()
        self.left_by_client = threading.Event()
        self._replies = deque(replies)
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def script(self, *replies: Reply) -> None:
        """Appends to the script."""
        with self._lock:
            self._replies.extend(replies)

    @property
    def bodies(self) -> list[Any]:
        return [request.json() for request in self.requests]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for connection in self._open:
            _close(connection)

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()
            number += 1

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            stream = connection.makefile("rb")
            while received := _receive(stream, number):
                with self._lock:
                    self.requests.append(received)
                    self.arrived.set()
                    reply = self._replies.popleft() if self._replies else Reply("the script is over", 500)
                if not self._answer(connection, reply):
                    break
        except OSError:
            self.left_by_client.set()
        finally:
            _close(connection)

    def _answer(self, connection: socket.socket, reply: Reply) -> bool:
        """Whether the connection takes another request."""
        if reply.after is not None:
            reply.after.wait(60)
        hangs = reply.hangs and not reply.pieces
        if (hangs or reply.delay) and self._is_left(connection, None if hangs else reply.delay):
            self.left_by_client.set()
            return False
        if reply.pieces:
            return self._stream(connection, reply)
        body = reply.payload()
        connection.sendall(reply.head(len(body)) + (body if reply.cut is None else body[: reply.cut]))
        return reply.cut is None and not reply.closes

    def _stream(self, connection: socket.socket, reply: Reply) -> bool:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(reply.head(0))
        left = reply.cut
        for piece in reply.pieces:
            if isinstance(piece, threading.Event):
                piece.wait(60)
                continue
            sent = piece[:left]
            if sent:
                connection.sendall(b"%x\r\n%b\r\n" % (len(sent), sent))
            if left is not None:
                left -= len(sent)
                if left == 0:
                    return False
        if reply.hangs and self._is_left(connection, None):
            self.left_by_client.set()
            return False
        connection.sendall(b"0\r\n\r\n")
        return not reply.closes

    def _is_left(self, connection: socket.socket, seconds: float | None) -> bool:
        """Waits, and tells whether the client closed the connection meanwhile."""
        connection.settimeout(seconds)
        try:
            return connection.recv(1, socket.MSG_PEEK) == b""
        except TimeoutError:
            return False
        finally:
            connection.settimeout(None)


def _receive(stream: Any, number: int) -> Received | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            return None
        head += line
    received = Received(number, head.removesuffix(b"\r\n\r\n"), b"")
    return received._replace(body=stream.read(int(received.headers.get("content-length", "0"))))


def _close(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    finally:
        connection.close()


def client_of(server: ScriptedServer, style: str = "openai", **settings: Any) -> Client:
    """A client of this server."""
    base = server.url + ("/v1" if style.startswith("openai") else "")
    return create_client(**{"style": style, "model": "m-1", "base_url": base, "api_key": KEY, **settings})


def openai_reply(text: str | None = None, calls: Iterable[tuple[str, str, str]] = (), **more: Any) -> Reply:
    """A Chat Completions reply; each call is its id, name and argument text. `more` is of the message."""
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    if made:
        message["tool_calls"] = made
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if made else "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    return Reply({"id": "chatcmpl-1", "model": "gpt-test-1", "choices": [choice], "usage": usage})


def responses_reply(output: str, more: str = '"status":"completed","error":null') -> Reply:
    """A Responses reply around the text of its output array, which is sent as it is."""
    head = '{"id":"resp_1","object":"response","model":"gpt-test-1","output":'
    usage = '"usage":{"input_tokens":9,"output_tokens":4,"output_tokens_details":{"reasoning_tokens":3}}'
    return Reply(f"{head}{output},{more},{usage}}}")


def responses_text(text: str) -> str:
    """An output array that says a text."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return json.dumps([{"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}])


def anthropic_reply(content: str, stop: str = "end_turn") -> Reply:
    """A Messages reply around the text of its content array, which is sent as it is."""
    head = '{"id":"msg_1","type":"message","role":"assistant","model":"claude-test-1","content":'
    tail = f',"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":9,"output_tokens":4}}}}'
    return Reply(head + content + tail)


def gemini_reply(parts: str, reason: str = "STOP") -> Reply:
    """A generateContent reply around the text of its list of parts, which is sent as it is."""
    head = '{"candidates":[{"content":{"role":"model","parts":'
    usage = '"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4,"totalTokenCount":13}'
    return Reply(f'{head}{parts}}},"finishReason":"{reason}","index":0}}],{usage},"modelVersion":"gemini-test-1"}}')


def sse(data: Any, event: str | None = None) -> bytes:
    """One event of a stream."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def stream(*pieces: bytes | threading.Event, **more: Any) -> Reply:
    """A streamed reply."""
    return Reply(pieces=pieces, **{"headers": {"content-type": "text/event-stream"}, **more})


KEY = "sk-test-0123456789abcdef"
