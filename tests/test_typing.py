"""The programs of `tests/typing` do what their types say: the type checkers read them, here they run."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "typing").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_typed_program_runs(program: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    run(sys.executable, "-W", "error", program, cwd=tmp_path)
