"""What the pages in docs/ list is what the package has: the tree of errors, the texts that a model reads."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from scripted_model import ScriptedModel, call, says
from toolrelay import (
    Answer,
    RelayResult,
    Request,
    ResumeError,
    Toolkit,
    answer_declined,
    answer_output,
    create_in_process_client,
    define_tool,
    errors,
    pending,
    relay_answer,
    relay_tool,
)

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"


def test_the_tree_of_errors_is_the_one_of_the_package() -> None:
    page = (DOCS / "errors.md").read_text(encoding="utf-8")

    def tree(text: str | None) -> list[tuple[str, str]]:
        assert text is not None
        return re.findall(r"^([│├└─ ]*)([A-Z]\w+)", text.split("```text\n")[1].split("```")[0], re.MULTILINE)

    assert tree(page) == tree(errors.__doc__)
    below = page.split("```text\n")[1].split("```", 1)[1]
    assert [name for _, name in tree(page)[1:] if name not in below] == []


async def test_the_texts_of_results_are_the_ones_that_a_model_reads() -> None:
    @define_tool
    async def sleeps() -> str:
        """Never ends."""
        import asyncio

        await asyncio.Event().wait()
        return "never"

    toolkit = Toolkit([relay_tool("tide", "high water"), relay_tool("moor", "moors"), sleeps])
    halted = await create_in_process_client(generate=ScriptedModel(says(call("tide"), call("moor")))).run("go", toolkit)
    request = halted.pending
    assert request is not None
    read = {}

    async def resume(answer) -> None:
        model = ScriptedModel("done")
        resumed = await create_in_process_client(generate=model).run_with_answer(
            toolkit, halted.messages, request, answer
        )
        keep(resumed.messages)

    def keep(messages) -> None:
        read.update({m["toolrelay"]["outcome"]: m["content"] for m in messages if "outcome" in m.get("toolrelay", {})})

    for reason in ("declined", "cancelled", "expired"):
        await resume(answer_declined(request.id, reason))
    await resume(relay_answer(request.id, [RelayResult("k2", "x")]))
    client = create_in_process_client(generate=ScriptedModel("ok"))
    keep((await client.run("stop", toolkit, halted.messages, on_pending="supersede")).messages)
    slow = create_in_process_client(generate=ScriptedModel(says(call("sleeps"))), timeout=0.1)
    keep((await slow.run("go", toolkit)).messages)

    page = (DOCS / "halts.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", page.split("### What the model reads")[1], re.MULTILINE))
    assert read.pop("missing") == rows.pop("missing").replace("<name>", "tide")
    assert rows.pop("not_run") == "not run: …"
    assert read == rows


async def test_the_texts_of_refusals_are_the_ones_that_a_host_reads() -> None:
    def count() -> int:
        """Counts."""
        return 7

    @define_tool
    async def late() -> object:
        """Waits for a second that is over."""
        return pending("question", "Which?", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    toolkit = Toolkit([relay_tool("tide", "high water"), relay_tool("moor", "moors"), define_tool(count), late])
    calls = says(call("tide"), call("moor"), call("count"), call("late"))
    halted = await create_in_process_client(generate=ScriptedModel(calls)).run("go", toolkit)
    history, (request, question) = halted.messages, halted.suspensions
    assert request.data is not None
    other = Request(request.id, "tool_call", "", data={"calls": [{**request.data["calls"][0], "id": "k9"}]})
    output, results = (
        answer_output(request.id, "x"),
        lambda *ids: relay_answer(request.id, [RelayResult(i, 1) for i in ids]),
    )
    refused = [
        ([], request, output),
        ([{"role": "user", "content": "hi"}], request, output),
        ([*history, {"role": "user", "content": "and?"}], request, output),
        (history, request, answer_output("req_0", "x")),
        (history, Request("req_0", "tool_call", ""), answer_output("req_0", "x")),
        (history, Request(request.id, "approval", ""), output),
        (history, other, output),
        (history, request, Answer(request.id, ok=True)),
        (history, request, output),
        (history, request, results("k9")),
        (history, request, results("k3")),
        (history, request, results("k1", "k1")),
        (history, question, Answer(question.id, ok=True)),
    ]
    told = []
    for transcript, waiting, answer in refused:
        with pytest.raises(ResumeError) as caught:
            await create_in_process_client(generate=ScriptedModel()).run_with_answer(
                toolkit, transcript, waiting, answer
            )
        told.append(str(caught.value))

    page = (DOCS / "halts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \| ", page.split("### What is refused")[1].split("```")[0], re.MULTILINE)
    texts = [text.strip("` ") for row in rows for text in re.split(r"(?<=`), (?=`)", row)]
    patterns = [re.compile(re.escape(text).replace("…", ".+")) for text in texts]
    assert [sum(pattern.search(text) is not None for text in told) for pattern in patterns] == [1] * len(told)
