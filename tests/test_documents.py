"""Every example that a reader sees runs: the blocks of README and docs, and the docstrings of the package."""

import doctest
import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import toolrelay

REPOSITORY = Path(__file__).parents[1]
DOCUMENTS = [
    document
    for document in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    if "\n```python\n" in document.read_text(encoding="utf-8")
]
MODULES = ["toolrelay", *(found.name for found in pkgutil.walk_packages(toolrelay.__path__, "toolrelay."))]
EXAMPLES = [
    example
    for name in MODULES
    for example in doctest.DocTestFinder().find(importlib.import_module(name))
    if example.examples
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_document_read_from_top_to_bottom_is_a_program(
    document: Path, tmp_path: Path, blocks: Callable[[Path], list[tuple[str, int]]], run: Callable[..., str]
) -> None:
    # Each block stands where it stands in the document: a traceback has the document's line numbers.
    program = tmp_path / f"{document.name}.py"  # no name that a program might import
    lines: list[str] = []
    for code, above in blocks(document):
        lines += [""] * (above - len(lines)) + code.splitlines()
    program.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run(sys.executable, "-W", "error", program, cwd=tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_of_a_docstring_runs(example: doctest.DocTest) -> None:
    assert doctest.DocTestRunner().run(example).failed == 0
