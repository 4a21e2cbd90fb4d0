"""Halts that an untrusted client keeps: `RunResult.seal` and `Client.run_with_sealed`."""

import base64
import os
import pickle
import subprocess
import sys
import textwrap
import time

import pytest
from toolrelay import (
    Answer,
    ConfigurationError,
    InProcessResponse,
    InProcessToolCall,
    MemoryStore,
    PayloadError,
    RelayResult,
    ResumeError,
    SealError,
    SealKeys,
    SqliteStore,
    ToolContext,
    Toolkit,
    answer_declined,
    answer_output,
    create_in_process_client,
    define_tool,
    pending,
    relay_answer,
    relay_tool,
)
from toolrelay.stores import Lease, Write

KEY = bytes(range(32))
TOOLKIT = Toolkit([relay_tool("shell", "Runs a command."), relay_tool("click", "Clicks.")])


class Model:
    """Calls relay tools first, then tells what it got."""

    def __init__(self, *calls):
        self.calls = calls
        self.asked = 0

    def __call__(self, request):
        self.asked += 1
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        if results:
            return f"got {', '.join(results)}"
        return InProcessResponse(tool_calls=[InProcessToolCall(name, {"n": 1}) for name in self.calls])


async def halted(*calls, **settings):
    client = create_in_process_client(generate=Model(*(calls or ("shell",))), **settings)
    return client, await client.run("go", TOOLKIT)


async def refused(client, token, answer, **options):
    with pytest.raises(SealError) as refusal:
        await client.run_with_sealed(TOOLKIT, token, answer, **options)
    return refusal.value.reason


async def test_a_sealed_halt_resumes_like_the_transcript_itself():
    client, halt = await halted()
    answer = answer_output(halt.pending.id, "a.txt")
    token = halt.seal(SealKeys(KEY), audience="user-7")
    done = await client.run_with_sealed(TOOLKIT, token, answer, keys=SealKeys(KEY), audience="user-7")
    plain = await client.run_with_answer(TOOLKIT, halt.messages, halt.pending, answer)
    assert (done.status, done.text) == ("done", "got a.txt")
    assert done.messages.to_json() == plain.messages.to_json()


def test_another_process_opens_what_this_one_sealed():
    client = create_in_process_client(generate=Model("shell"))
    halt = client.run_sync("go", TOOLKIT)
    program = textwrap.dedent("""
        import sys
        from toolrelay import SealKeys, Toolkit, answer_output, create_in_process_client, relay_tool
        client = create_in_process_client(generate=lambda request: "it said " + request.messages[-1]["content"])
        keys = SealKeys(bytes(range(1, 33)), bytes(range(32)))
        answer = answer_output(sys.argv[2], "hello")
        print(client.run_with_sealed_sync(Toolkit([relay_tool("shell", "")]), sys.argv[1], answer, keys=keys).text)
    """)
    token = halt.seal(SealKeys(KEY))
    told = subprocess.run(
        [sys.executable, "-c", program, token, halt.pending.id], capture_output=True, text=True, check=True
    )
    assert told.stdout == "it said hello\n"


async def test_a_token_shows_nothing_of_the_conversation():
    _, halt = await halted()
    token = halt.seal(SealKeys(KEY))
    content = base64.urlsafe_b64decode(token.removeprefix("tr1.") + "==")
    assert all(word not in content for word in (b"shell", b"go", halt.pending.id.encode()))
    assert token != halt.seal(SealKeys(KEY))


async def test_what_does_not_open_is_refused_with_its_reason_and_no_model_is_called():
    _, halt = await halted()
    model = Model("shell")
    client = create_in_process_client(generate=model)
    answer, keys = answer_output(halt.pending.id, "x"), SealKeys(KEY)
    good = halt.seal(keys, audience="ann")
    flipped = good[:-9] + ("A" if good[-9] != "A" else "B") + good[-8:]
    for token, options, reason in [
        ("", {"keys": keys}, "malformed"),
        (good[:40], {"keys": keys, "audience": "ann"}, "malformed"),
        (f"{good}\ud83d", {"keys": keys, "audience": "ann"}, "malformed"),
        ("tr2.AAAA", {"keys": keys}, "newer"),
        (good, {"keys": SealKeys(os.urandom(32)), "audience": "ann"}, "unknown_key"),
        (flipped, {"keys": keys, "audience": "ann"}, "forged"),
        (good, {"keys": keys, "audience": "bob"}, "audience"),
        (good, {"keys": keys}, "audience"),
        (halt.seal(keys, expires_in=1e-9), {"keys": keys}, "expired"),
    ]:
        assert await refused(client, token, answer, **options) == reason
    assert model.asked == 0


async def test_a_second_use_is_refused_with_once_whichever_store_remembers(tmp_path):
    for store in (MemoryStore(), SqliteStore(tmp_path / "ledger.db")):
        client, halt = await halted(store=store)
        keys, answer = SealKeys(KEY), answer_output(halt.pending.id, "x")
        token = halt.seal(keys)
        assert (await client.run_with_sealed(TOOLKIT, token, answer, keys=keys, once=True)).status == "done"
        assert await refused(client, token, answer, keys=keys, once=True) == "used"
        again = await client.run_with_sealed(TOOLKIT, token, answer, keys=keys)
        assert again.status == "done"  # nobody asked for a ledger


async def test_a_sweep_deletes_the_marks_of_tokens_that_ended_and_no_others(shared):
    store = shared.store()
    client, halt = await halted(store=store)
    keys, answer = SealKeys(KEY), answer_output(halt.pending.id, "x")
    for seconds in (60, None, 9999):
        token = halt.seal(keys, expires_in=seconds)
        await client.run_with_sealed(TOOLKIT, token, answer, keys=keys, once=True)
    ((ended, lease), (kept, other)) = await store.leases(None, 9)
    left = lease.until_ms / 1000 - time.time()
    assert 3600 < left <= 3660, "an hour behind its end, for clocks that differ"
    assert (await client.sweep()).expired == []
    assert len(await store.leases(None, 9)) == 2
    await store.commit(ended, Write(1, 2, 0, "idle", 1, Lease(lease.owner, 1, 0), (), ()))
    swept = await client.sweep(TOOLKIT)
    assert (swept.recovered, swept.expired, swept.failed) == ({}, [], {})
    assert await store.load(ended) is None
    assert list(await store.leases(None, 9)) == [(kept, other)]


async def test_an_answer_that_does_not_fit_uses_nothing_up():
    client, halt = await halted(store=MemoryStore())
    keys = SealKeys(KEY)
    token = halt.seal(keys)
    for wrong in (
        answer_output("another", "x"),
        Answer(id=halt.pending.id, ok=True, data={"stdout": "x"}),
        Answer(id=halt.pending.id, ok=True, data={"results": [{"id": "none"}]}),
    ):
        with pytest.raises(ResumeError):
            await client.run_with_sealed(TOOLKIT, token, wrong, keys=keys, once=True)
    good = answer_output(halt.pending.id, "x")
    assert (await client.run_with_sealed(TOOLKIT, token, good, keys=keys, once=True)).status == "done"


async def test_partial_answers_seal_again_and_every_kind_of_request_is_found():
    @define_tool
    def pay(n: int, context: ToolContext) -> object:
        """Pays."""
        return "paid" if context.answer else pending(kind="approval", prompt="pay?")

    toolkit = Toolkit([*[relay_tool(name, "") for name in ("shell", "click")], pay])
    keys = SealKeys(KEY)
    client = create_in_process_client(generate=Model("shell", "pay", "click"))
    halt = await client.run("go", toolkit)
    relay, approval = halt.suspensions
    half = relay_answer(relay.id, [RelayResult(relay.data["calls"][1]["id"], "clicked")])
    halt = await client.run_with_sealed(toolkit, halt.seal(keys), half, keys=keys, missing="wait")
    halt = await client.run_with_sealed(toolkit, halt.seal(keys), Answer(id=approval.id, ok=True), keys=keys)
    done = await client.run_with_sealed(toolkit, halt.seal(keys), answer_declined(relay.id), keys=keys)
    assert (done.status, [call.is_error for call in done.tool_calls]) == ("done", [True, False, False])


async def test_a_result_that_waits_for_nothing_is_not_sealed():
    client, halt = await halted()
    done = await client.run_with_answer(TOOLKIT, halt.messages, halt.pending, answer_output(halt.pending.id, "x"))
    with pytest.raises(SealError) as refusal:
        done.seal(SealKeys(KEY))
    assert refusal.value.reason == "not_halted"


def test_a_ring_takes_keys_of_32_bytes_only_and_keeps_them_to_itself():
    for keys in ((), (b"short",), ("x" * 32,), (KEY, b"")):
        with pytest.raises(ConfigurationError):
            SealKeys(*keys)
    ring = SealKeys(KEY, os.urandom(32))
    assert repr(ring) == "<SealKeys: 2 keys>"
    with pytest.raises(TypeError):
        pickle.dumps(ring)


async def test_what_is_no_answer_is_a_payload_error():
    client, halt = await halted()
    with pytest.raises(PayloadError):
        await client.run_with_sealed(TOOLKIT, halt.seal(SealKeys(KEY)), {"id": "x"}, keys=SealKeys(KEY))
