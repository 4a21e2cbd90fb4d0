"""Coroutines for programs without an event loop."""

from __future__ import annotations

import asyncio
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
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    with ThreadPoolExecutor(1, "toolrelay-sync") as thread:
        return thread.submit(copy_context().run, asyncio.run, coroutine).result()
