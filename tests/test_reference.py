"""docs/reference.md lists what there is."""

import re
from pathlib import Path

import pytest
from toolrelay import Answer, Conversation, Request, RunResult, ToolCallRecord, Transcript, Usage, types
from toolrelay.conversations import PendingPage, PendingRequest, RunningConversation, RunningPage, Swept


def fields(kind: type) -> set[str]:
    slots = getattr(kind, "__slots__", ())
    return {name for name in {*dir(kind), *slots} if not name.startswith("_") and not callable(getattr(kind, name))}


@pytest.mark.parametrize("kind", [RunResult, ToolCallRecord, Usage, Transcript, Request, Answer, Conversation])
def test_each_field_of_what_comes_back_is_told(kind: type, repository: Path) -> None:
    text = (repository / "docs/reference.md").read_text(encoding="utf-8")
    section = text.split(f"\n## `{kind.__name__}`\n")[1].split("\n## ")[0]
    assert {name for name in fields(kind) if f"`{name}`" not in section} == set()


@pytest.mark.parametrize("kind", [PendingPage, PendingRequest, RunningPage, RunningConversation, Swept])
def test_each_field_of_a_listing_is_told(kind: type, repository: Path) -> None:
    text = (repository / "docs/reference.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{kind.__name__}`")]
    assert {name for name in fields(kind) if f"`{name}`" not in row} == set()


def test_each_name_of_signatures_is_told(repository: Path) -> None:
    text = (repository / "docs/reference.md").read_text(encoding="utf-8")
    assert {name for name in types.__all__ if f"`{name}`" not in text} == set()


def test_each_rule_of_the_contract_that_is_cited_is_there(repository: Path) -> None:
    contract = (repository / "docs/contract.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"^(?:## |\*\*)(\d+(?:\.\d+)?)", contract, re.MULTILINE))
    cited: dict[str, Path] = {}
    for folder in ("python", "rust", "stubs", "tests"):
        for path in (repository / folder).rglob("*"):
            if path.suffix in {".py", ".pyi", ".rs"} and "target" not in path.parts:
                text = path.read_text(encoding="utf-8")
                for numbers in re.findall(r"contract (\d+(?:\.\d+)?(?:(?:, | and )\d+(?:\.\d+)?)*)", text):
                    cited.update(dict.fromkeys(re.findall(r"\d+(?:\.\d+)?", numbers), path))
    assert {rule: path for rule, path in cited.items() if rule not in rules} == {}
    assert len(cited) > 40
