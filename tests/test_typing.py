"""The programs of `tests/typing` do what their types say: the type checkers read them, here they run."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "typing").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_typed_program_runs(program: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    run(sys.executable, "-W", "error", program, cwd=tmp_path)


def test_the_program_that_type_checkers_read_is_the_one_of_the_readme(
    repository: Path, blocks: Callable[[Path], list[tuple[str, int]]]
) -> None:
    code, _ = blocks(repository / "README.md")[0]
    _, _, checked = (repository / "tests/typing/readme.py").read_text(encoding="utf-8").partition("\n\n")
    assert checked == code
