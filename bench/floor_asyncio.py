"""The Python floor of the benchmarks: a bare `asyncio.Protocol` that sends recorded requests and reads the replies.

    python bench/floor_asyncio.py PORT SCRIPT CONNECTIONS WARM PASSES

The same arguments and the same output as `floor.c`.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import workload
from script import Script


class Exchange(asyncio.Protocol):
    """One connection with at most one request on its way."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._reply = b""
        self._streams = False

    def data_received(self, data: bytes) -> None:
        if self._streams:
            self._reply = (self._reply + data)[-len(_LAST) :]
            if self._reply == _LAST:
                self._end()
            return
        self._reply = self._reply + data if self._reply else data
        end = self._reply.find(b"\r\n\r\n")
        at = self._reply.find(b"content-length:")
        if end >= 0 and b"transfer-encoding:" in self._reply:
            self._streams, rest = True, self._reply[end:]
            self._reply = b""
            self.data_received(rest)
            return
        if end < 0 or at < 0:
            return
        length = int(self._reply[at + 15 : self._reply.index(b"\r", at)])
        if len(self._reply) >= end + 4 + length:
            self._end()

    def _end(self) -> None:
        self._reply, self._streams = b"", False
        self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._done.set_exception(error)

    def send(self, request: bytes) -> asyncio.Future[None]:
        """Done when the whole reply is here."""
        self._done = self._loop.create_future()
        self._transport.write(request)
        return self._done


_LAST = b"\r\n0\r\n\r\n"


async def repeat(exchange: Exchange, script: Script, passes: int, marks: list[float] | None = None) -> None:
    """Send the script again and again; with `marks`, note the CPU time before each request."""
    shared = memoryview(script.shared)
    for _ in range(passes):
        for frame in script.frames:
            if marks is not None:
                marks.append(workload.cpu_us())
            whole = b"".join((frame.head, shared[: frame.shared], frame.tail)) if frame.shared else frame.head
            await exchange.send(whole)


async def measure(port: int, script: Script, connections: int, warm: int, passes: int) -> dict[str, object]:
    """CPU and rate of `passes` passes over each connection, and of each request where a pass is long."""
    loop = asyncio.get_running_loop()
    exchanges = [(await loop.create_connection(Exchange, "127.0.0.1", port))[1] for _ in range(connections)]
    size = len(script.frames)
    marks: list[float] | None = [] if size > 2 else None

    await asyncio.gather(*(repeat(exchange, script, warm) for exchange in exchanges))
    cpu, wall = workload.cpu_us(), time.perf_counter()
    await asyncio.gather(*(repeat(exchange, script, passes, marks) for exchange in exchanges))
    cpu, wall = workload.cpu_us() - cpu, time.perf_counter() - wall

    turns = [after - before for before, after in pairwise(marks or ())]
    turn_us = [fmean(turns[number::size]) for number in range(min(size, len(turns)))]
    count = passes * connections
    return {"cpu_us": cpu / count, "per_second": count / wall, "peak_kb": workload.peak_kb(), "turn_us": turn_us}


def main() -> None:
    """Read the arguments, measure, print."""
    port, path, connections, warm, passes = sys.argv[1:]
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    costs = measure(int(port), Script.read(Path(path)), int(connections), int(warm), int(passes))
    print(json.dumps(asyncio.run(costs)))


if __name__ == "__main__":
    main()
