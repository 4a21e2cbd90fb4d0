"""Coroutines for programs without an event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end on a loop of its own.

    Where a loop already runs in this thread (a notebook, say), a thread of its own does it, so that neither waits for
    the other; the context variables go along.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _run_beside(coroutine)


def _run_beside(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs it in another thread, and stops it when this one is interrupted.

    Control-C is a `KeyboardInterrupt` here, or, under `asyncio.run`, a cancellation of the task that called.
    """
    from concurrent.futures import ThreadPoolExecutor, wait
    from contextvars import copy_context

    caller = asyncio.current_task()
    before = 0 if caller is None else caller.cancelling()
    stopped = False
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def run() -> T:
        task = asyncio.create_task(coroutine)
        begun.append((task.get_loop(), task))
        if stopped:
            task.cancel()
        return await task

    def stop() -> None:
        nonlocal stopped
        stopped = True
        for loop, task in begun:
            with suppress(RuntimeError):  # the loop was closed just now
                loop.call_soon_threadsafe(task.cancel)

    with ThreadPoolExecutor(1, "toolrelay-sync") as thread:
        end = thread.submit(copy_context().run, asyncio.run, run())
        try:
            while not wait([end], _LOOK_UP).done:
                if caller is not None and caller.cancelling() > before and not stopped:
                    stop()
        except BaseException:
            stop()
            raise
        return end.result()


_LOOK_UP = 0.1
"""Seconds."""
