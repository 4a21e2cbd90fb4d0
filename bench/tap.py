"""A tap between a client and a server: what passes is counted, whatever the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(slots=True)
class Passed:
    """What went through so far. A round trip begins when a client speaks after its server did."""

    round_trips: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


@asynccontextmanager
async def tapped(url: str) -> AsyncIterator[tuple[str, Passed]]:
    """The address of the tap in front of this server, and what has passed."""
    target = urlsplit(url)
    passed = Passed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(target.hostname, target.port)
        is_asking = False

        async def ask() -> None:
            nonlocal is_asking
            while data := await reader.read(1 << 20):
                passed.round_trips += not is_asking
                is_asking = True
                passed.bytes_sent += len(data)
                to_server.write(data)
            to_server.close()

        async def answer() -> None:
            nonlocal is_asking
            while data := await from_server.read(1 << 20):
                is_asking = False
                passed.bytes_received += len(data)
                writer.write(data)
            writer.close()

        with suppress(asyncio.CancelledError):  # the loop ends while a connection is open
            await asyncio.gather(ask(), answer(), return_exceptions=True)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        yield url.replace(f":{target.port}", f":{port}"), passed
