"""The HTTP client that the rivals share, with as many connections as there are runs in flight."""

from __future__ import annotations

import httpx
import openai


def new_openai(base_url: str) -> openai.AsyncOpenAI:
    """The official client, on the given server."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    transport = openai.DefaultAsyncHttpxClient(limits=limits, timeout=600)
    return openai.AsyncOpenAI(base_url=base_url, api_key="x", timeout=600, http_client=transport)
