"""Two processes on one conversation: races, crashes, a halt in one and the resume in another (contract 7, 8.2)."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from places import DURABLE, new_place
from scripted_server import Reply, anthropic_reply, gemini_reply, openai_reply, responses_reply, responses_text
from toolrelay import Answer, RelayResult, Request, answer_output, relay_answer, relay_calls_of

WORKER = Path(__file__).parent / "support" / "worker.py"


class Worker:
    """A process that waits until it is let go."""

    def __init__(self, **task):
        self.process = subprocess.Popen(
            [sys.executable, WORKER, json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self):
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self

    def told(self, warning=""):
        out, err = self.process.communicate(timeout=30)
        assert (self.process.returncode, err.strip()) == (0, warning)
        return json.loads(out)

    def end(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def start():
    """Starts a worker; none outlives its test."""
    started = []

    def start(**task):
        started.append(Worker(**task))
        started[-1].wait_until_ready()
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture(params=DURABLE)
def task(request, server, tmp_path):
    return {"style": "openai", "url": f"{server.url}/v1", "store": new_place(request.param, tmp_path)}


def race(workers, go_on):
    """Lets the workers go at once, and the model reply when all but one have ended."""
    for worker in workers:
        worker.go()
    waiting = list(workers)
    while len(waiting) > 1:
        waiting = [worker for worker in waiting if worker.process.poll() is None]
        time.sleep(0.01)
    go_on.set()
    return [worker.told() for worker in workers]


@pytest.mark.parametrize(
    ("outputs", "losers"),
    [
        (["4 m"] * 2, ["AnswerInProgress"]),
        (["4 m", "5 m"], ["AlreadyAnswered"]),
        (["4 m"] * 4, ["AnswerInProgress"] * 3),
    ],
    ids=["two with the same answer", "two with different answers", "four with the same answer"],
)
def test_of_many_resumes_at_once_one_works_and_one_model_call_is_made(server, start, task, outputs, losers):
    """H1; contract 7.2, 7.4."""
    go_on = threading.Event()
    server.script(openai_reply(None, [("k1", "tide", "{}")]), Reply(**{**vars(openai_reply("done")), "after": go_on}))
    halted = start(**task, do="ask", prompt="tide?").go().told()
    request = Request.from_json(halted["request"])
    answers = [answer_output(request.id, output).to_json().decode() for output in outputs]

    told = race([start(**task, do="answer", request=halted["request"], answer=answer) for answer in answers], go_on)

    assert len(server.requests) == 2
    assert sorted(end.get("error", "") for end in told) == ["", *losers]
    (winner,) = [at for at, end in enumerate(told) if "error" not in end]
    assert (told[winner]["status"], told[winner]["text"]) == ("done", "done")
    assert server.bodies[1]["messages"][-1]["content"] == outputs[winner]
    again = start(**task, do="answer", request=halted["request"], answer=answers[winner]).go().told()
    assert (again["text"], len(server.requests)) == ("done", 2)


CONTENT = (
    '{"type":"thinking","thinking":"tide h\\u00e4 / \\/","signature":"c2ln\\/bmVk+A=="},'
    ' {"type":"redacted_thinking","data":"q0"},{"type":"thinking","thinking":"","signature":"ZW1wdHk="},'
    '{"type":"text","text":"both","citations":null},'
    '{"type":"tool_use","id":"toolu_1","name":"tide","input":{ "z":1,"a": 1.0,"big":12345678901234567890123}},'
    '{"type":"tool_use","id":"toolu_2","name":"moor","input":{},"unknown":{"b":1,"a":2}}'
)


OUTPUT = (
    '{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"tide h\\u00e4 \\/"}],'
    '"encrypted_content":"gAAA\\/bmVk+A==","weight": 1.50},'
    ' {"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"tide"}},'
    '{"id":"rs_2","type":"reasoning","summary":[],"content":[],"encrypted_content":"q0"},'
    '{"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":'
    '[{"type":"output_text","annotations":[{"type":"url_citation","url":"u","title":"t"}],"text":"both","logprobs":[]}]},'
    '{"id":"fc_1","type":"function_call","status":"completed","call_id":"toolu_1","name":"tide",'
    '"arguments":"{ \\"z\\":1}"},'
    '{"arguments":"{}","call_id":"toolu_2","name":"moor","type":"function_call","id":"fc_2","unknown":{"b":1,"a":2}}'
)
PARTS = (
    '{"text":"tide h\\u00e4 / \\/","thought":true,"thoughtSignature":"c2ln\\/bmVk+A=="},'
    ' {"text":"","thoughtSignature":"ZW1wdHk="},{"executableCode":{"language":"PYTHON","code":"1+1"},"mystery":[]},'
    '{"thoughtSignature":"Zmlyc3Q\\/+A==","functionCall":{"name":"tide",'
    '"args":{ "z":1,"a": 1.0,"big":12345678901234567890123}}},'
    '{"functionCall":{"id":"fc \\u0032","name":"moor","args":{},"unknown":{"b":1,"a":2}}}'
)


def halt_and_resume_elsewhere(start, task, keeper, tmp_path):
    """A run that halts in one process with calls of `tide` and `moor`, and is answered in another."""
    begin, resume = ("ask", "answer") if keeper == "a store" else ("run", "resume")
    if keeper == "a file":
        task["transcript"] = str(tmp_path / "halted.json")

    halted = start(**task, do=begin, prompt="tide?").go().told()
    assert halted["status"] == "pending"
    request = Request.from_json(halted["request"])
    tide, moor = relay_calls_of(request)
    results = [RelayResult(tide.id, "4 m"), RelayResult(moor.id, "moored")]
    answer = relay_answer(request.id, results).to_json().decode()
    told = start(**task, do=resume, request=halted["request"], answer=answer).go().told()
    assert (told["status"], told["text"]) == ("done", "done")


@pytest.mark.parametrize("keeper", ["a store", "a file"])
def test_the_signed_content_that_another_process_sends_back_is_byte_identical(server, start, task, tmp_path, keeper):
    """Contract 8.2, 6.1: thinking and its signatures, empty blocks, unknown fields, number spelling."""
    server.script(anthropic_reply(f"[{CONTENT}]", "tool_use"), anthropic_reply('[{"type":"text","text":"done"}]'))
    halt_and_resume_elsewhere(start, task | {"style": "anthropic", "url": server.url}, keeper, tmp_path)

    assert f'{{"role":"assistant","content":[{CONTENT}]}}'.encode() in server.requests[1].body
    assert [block["tool_use_id"] for block in server.bodies[1]["messages"][2]["content"]] == ["toolu_1", "toolu_2"]


@pytest.mark.parametrize("keeper", ["a store", "a file"])
def test_the_items_that_another_process_sends_back_are_byte_identical(server, start, task, tmp_path, keeper):
    """Contract 8.2, 6.1: encrypted reasoning, the provider's own tools, unknown fields, number spelling."""
    server.script(responses_reply(f"[{OUTPUT}]"), responses_reply(responses_text("done")))
    halt_and_resume_elsewhere(start, task | {"style": "openai-responses"}, keeper, tmp_path)

    outputs = ",".join(
        f'{{"type":"function_call_output","call_id":"{call}","output":"{output}"}}'
        for call, output in [("toolu_1", "4 m"), ("toolu_2", "moored")]
    )
    assert server.requests[1].body.endswith(f",{OUTPUT},{outputs}]}}".encode())


@pytest.mark.parametrize("keeper", ["a store", "a file"])
def test_the_thought_signatures_that_another_process_sends_back_are_byte_identical(
    server, start, task, tmp_path, keeper
):
    """Contract 8.2, 6.1; B7, F6, F7: signatures on any part, and an id only where the provider gave one."""
    server.script(gemini_reply(f"[{PARTS}]"), gemini_reply('[{"text":"done"}]'))
    halt_and_resume_elsewhere(start, task | {"style": "gemini", "url": server.url}, keeper, tmp_path)

    assert f'{{"role":"model","parts":[{PARTS}]}}'.encode() in server.requests[1].body
    assert server.bodies[1]["contents"][2]["parts"] == [
        {"functionResponse": {"name": "tide", "response": {"output": "4 m"}}},
        {"functionResponse": {"id": "fc 2", "name": "moor", "response": {"output": "moored"}}},
    ]


def test_a_worker_that_dies_in_a_tool_leaves_its_finished_turns_and_no_tool_runs_again(server, start, task, tmp_path):
    """H2; contract 7.6."""
    trace = tmp_path / "trace"
    arguments = json.dumps({"file": str(trace)})
    server.script(
        openai_reply(None, [("k1", "count_up", arguments)]),
        openai_reply(None, [("k2", "crash", "{}")]),
        openai_reply("recovered"),
    )
    dying = start(**task, do="ask", prompt="go", lease="0.5").go()
    dying.process.communicate(timeout=30)
    assert dying.process.returncode == 9
    time.sleep(0.6)

    warning = "conversation 'c-1': the call k2 of crash had no result; it is marked as interrupted"
    told = start(**task, do="ask", prompt="go on").go().told(warning)

    assert told["text"] == "recovered"
    assert trace.read_text() == "x"
    first, second = [message for message in server.bodies[2]["messages"] if message["role"] == "tool"]
    assert first["content"] == "counted"
    assert second["content"].startswith("interrupted")
    assert "may have run" in second["content"]


def test_an_answer_of_a_worker_that_died_is_not_lost(server, start, task):
    """Contract 7.3, 7.4: the same answer goes on from where the dead worker stood."""
    server.script(openai_reply(None, [("k1", "tide", "{}")]), Reply(hangs=True), openai_reply("done"))
    halted = start(**task, do="ask", prompt="tide?").go().told()
    answer = answer_output(Request.from_json(halted["request"]).id, "4 m").to_json().decode()
    server.arrived.clear()
    dying = start(**task, do="answer", request=halted["request"], answer=answer, lease="0.5").go()
    assert server.arrived.wait(10)
    dying.process.kill()
    dying.process.communicate()

    other = Answer(Request.from_json(halted["request"]).id, ok=False).to_json().decode()
    refused = start(**task, do="answer", request=halted["request"], answer=other).go().told()
    assert refused["error"] == "AlreadyAnswered"
    time.sleep(0.6)
    told = start(**task, do="answer", request=halted["request"], answer=answer).go().told()

    assert told["text"] == "done"
    assert server.bodies[2]["messages"] == server.bodies[1]["messages"]


def test_a_worker_that_slept_past_its_lease_writes_nothing_more(server, start, task):
    """Contract 7.2: every write is fenced by the claim."""
    server.script(Reply(hangs=True), openai_reply("from the second"))
    sleeping = start(**task, do="ask", prompt="go", lease="0.5").go()
    assert server.arrived.wait(10)
    sleeping.process.send_signal(signal.SIGSTOP)
    time.sleep(0.8)

    second = start(**task, do="ask", prompt="hello?").go().told()
    assert second["text"] == "from the second"
    sleeping.process.send_signal(signal.SIGCONT)
    told = sleeping.told()
    assert told["error"] == "LeaseLost"

    server.script(openai_reply("third"))
    start(**task, do="ask", prompt="and?").go().told()
    said = [message["content"] for message in server.bodies[-1]["messages"]]
    assert said[-2:] == ["from the second", "and?"]
    assert "go" in said[0]
