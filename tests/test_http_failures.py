"""How models behind HTTP fail, are tried again, time out and are cancelled (contract 6.10, 8.6, 9.3)."""

import asyncio
import copy
import logging
import pickle
import socket
import time
import traceback

import pytest
from harbour import NO_TOOLS
from scripted_server import KEY, Reply, client_of, openai_reply
from toolrelay import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderReplyError,
    ProviderServerError,
    ProviderTimeoutError,
    QuotaError,
    RateLimitError,
    Toolkit,
    create_client,
    define_tool,
)

SOON = {"retry-after-ms": "1"}


def error(status, message="no", **more):
    return Reply({"error": {"message": message, **more}}, status, SOON)


FAILURES = {
    "401": (error(401), AuthenticationError, "authentication"),
    "403": (error(403), PermissionDeniedError, "permission"),
    "404": (error(404), ModelNotFoundError, "not_found"),
    "400": (error(400), BadRequestError, "bad_request"),
    "422": (error(422), BadRequestError, "bad_request"),
    "overflow": (error(400, code="context_length_exceeded"), ContextOverflowError, "context_overflow"),
    "filter": (error(400, code="content_filter"), ContentFilterError, "filtered"),
    "429": (error(429, type="rate_limit_error"), RateLimitError, "rate_limited"),
    "quota": (error(429, type="insufficient_quota", code="insufficient_quota"), QuotaError, "out_of_quota"),
    "529": (error(529, type="overloaded_error"), OverloadedError, "overloaded"),
    "500": (error(500), ProviderServerError, "server"),
    "409": (error(409), ProviderServerError, "conflict"),
    "504": (error(504), ProviderTimeoutError, "timeout"),
    "error in a success": (error(200, "upstream down", code=502), ProviderServerError, "server"),
    "no json": (Reply("<html>", 200), ProviderReplyError, "malformed"),
    "no choices": (Reply({"id": "x", "choices": []}), ProviderReplyError, "malformed"),
    "null choices": (Reply({"id": "x", "choices": None}), ProviderReplyError, "malformed"),
    "empty body": (Reply(""), ProviderReplyError, "malformed"),
}


@pytest.mark.parametrize(("reply", "kind", "word"), FAILURES.values(), ids=FAILURES)
async def test_a_failure_of_the_provider_is_typed_and_keeps_the_transcript(server, reply, kind, word):
    """G2, G4; contract 6.10, 8.6."""
    server.script(Reply(**{**vars(reply), "headers": {**reply.headers, "x-request-id": "r-9"}}))

    with pytest.raises(ProviderError) as caught:
        await client_of(server, retries=0).run("hi", NO_TOOLS)

    failure = caught.value
    assert (type(failure), failure.kind, failure.status) == (kind, word, reply.status)
    assert failure.request_id == "r-9"
    assert failure.transcript == [{"role": "user", "content": "hi"}]
    assert failure.retryable is (word in {"rate_limited", "overloaded", "server", "conflict", "timeout"})
    for twin in (pickle.loads(pickle.dumps(failure)), copy.deepcopy(failure)):
        assert (type(twin), str(twin), twin.status) == (kind, str(failure), reply.status)
        assert twin.transcript == failure.transcript

    server.script(openai_reply("fine"))
    result = await client_of(server).run(None, NO_TOOLS, history=failure.transcript)
    assert result.text == "fine"
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_passing_failure_is_tried_again(server, status):
    """G1, G7; contract 8.6: no tool runs twice."""
    ran = []

    @define_tool
    async def save() -> str:
        """Has an effect."""
        ran.append(1)
        return "saved"

    server.script(openai_reply(None, [("k1", "save", "{}")]), error(status), error(status), openai_reply("done"))
    result = await client_of(server).run("save", Toolkit([save]))
    assert (result.text, ran) == ("done", [1])
    assert len({request.body for request in server.requests[1:]}) == 1


async def test_the_last_failure_is_raised_when_the_retries_are_used_up(server):
    server.script(error(529), error(503), error(529, "still busy", type="overloaded_error"))
    with pytest.raises(OverloadedError, match="still busy") as caught:
        await client_of(server).run("hi", NO_TOOLS)
    assert (len(server.requests), caught.value.status, caught.value.error_type) == (3, 529, "overloaded_error")
    assert caught.value.retry_after == 0.001


@pytest.mark.parametrize("reply", [error(400), error(401), error(429, code="insufficient_quota")])
async def test_a_lasting_failure_is_not_tried_again(server, reply):
    """G4."""
    server.script(reply)
    with pytest.raises(ProviderError):
        await client_of(server).run("hi", NO_TOOLS)
    assert len(server.requests) == 1


async def test_a_wait_that_the_provider_names_is_obeyed(server):
    server.script(Reply(status=429, headers={"retry-after": "0.4"}), openai_reply("done"))
    begun = time.monotonic()
    await client_of(server).run("hi", NO_TOOLS)
    assert 0.4 <= time.monotonic() - begun < 5


async def test_a_reply_that_is_cut_off_is_tried_again_and_leaves_no_trace(server):
    """A16."""
    whole = openai_reply("done")
    server.script(Reply(**{**vars(whole), "cut": 20}), whole)
    result = await client_of(server).run("hi", NO_TOOLS)
    assert [message["content"] for message in result.messages] == ["hi", "done"]


async def test_a_server_that_is_not_there_is_a_connection_error():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    client = create_client(model="m", api_key=KEY, base_url=f"http://127.0.0.1:{port}/v1", retries=0)
    with pytest.raises(ProviderConnectionError) as caught:
        await client.run("hi", NO_TOOLS)
    assert isinstance(caught.value, ConnectionError)
    assert (caught.value.status, caught.value.retryable) == (None, True)
    assert str(port) in str(caught.value)


async def test_a_silent_server_is_a_timeout_error(server):
    server.script(Reply(hangs=True))
    with pytest.raises(ProviderTimeoutError) as caught:
        await client_of(server, read_timeout=0.2, retries=0).run("hi", NO_TOOLS)
    assert isinstance(caught.value, TimeoutError)
    assert await asyncio.to_thread(server.left_by_client.wait, 2)


async def test_the_time_limit_of_a_run_ends_it_as_incomplete_and_closes_the_connection(server):
    """Contract 3.6."""
    server.script(Reply(hangs=True))
    result = await client_of(server, timeout=0.2).run("hi", NO_TOOLS)
    assert (result.status, result.limit) == ("incomplete", "timeout")
    assert result.messages == [{"role": "user", "content": "hi"}]
    assert await asyncio.to_thread(server.left_by_client.wait, 2)


async def test_the_time_limit_ends_a_wait_between_attempts(server):
    server.script(Reply(status=429, headers={"retry-after": "30"}))
    begun = time.monotonic()
    result = await client_of(server, timeout=0.2).run("hi", NO_TOOLS)
    assert (result.limit, time.monotonic() - begun < 5) == ("timeout", True)


async def test_cancelling_a_run_closes_its_connection(server):
    """I3."""
    server.script(Reply(hangs=True), openai_reply("fine"))
    client = client_of(server)
    running = asyncio.create_task(client.run("hi", NO_TOOLS))
    await asyncio.to_thread(server.arrived.wait, 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await running
    assert await asyncio.to_thread(server.left_by_client.wait, 1)
    result = await client.run(None, NO_TOOLS, history=caught.value.transcript)
    assert result.text == "fine"


async def test_the_key_is_in_no_repr_log_or_exception(server, caplog):
    """Contract 8.6; issue text: no key anywhere."""
    caplog.set_level(logging.DEBUG)
    other = "Bearer other-secret-0123456789"
    echo = f"invalid key {KEY} for {other}"
    server.script(error(401, echo), Reply(echo, 500, SOON), Reply(echo, 400))
    shown = []
    client = client_of(server, headers={"x-proxy-token": other}, retries=0)
    shown.append(repr(client))
    for _ in range(3):
        with pytest.raises(ProviderError) as caught:
            await client.run("hi", NO_TOOLS)
        failure = caught.value
        shown += [str(failure), repr(failure), repr(vars(failure)), repr(pickle.dumps(failure))]
        shown += traceback.format_exception(failure)
    shown.append(caplog.text)

    told = "\n".join(shown)
    assert "invalid key" in told
    assert KEY not in told
    assert "other-secret" not in told
