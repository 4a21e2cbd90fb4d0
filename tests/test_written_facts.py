"""What the pages in docs/ list is what the package has: the tree of errors, the texts that a model reads."""

import re
from pathlib import Path

from scripted_model import ScriptedModel, call, says
from toolrelay import (
    RelayResult,
    Toolkit,
    answer_declined,
    create_in_process_client,
    define_tool,
    errors,
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
