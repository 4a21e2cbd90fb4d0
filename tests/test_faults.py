"""The list of faults in docs/ is whole, and every test that it names is there."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-J]\d+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
COUNTS = {"A": 17, "B": 12, "C": 13, "D": 24, "E": 10, "F": 11, "G": 7, "H": 13, "I": 14, "J": 11}
NUMBERS = [f"{kind}{number}" for kind, count in COUNTS.items() for number in range(1, count + 1)]


def is_there(test: str) -> bool:
    path, _, name = test.partition("::")
    file = REPOSITORY / path
    if not file.is_file():
        return False
    # A dialogue is a test by itself.
    return file.suffix == ".json" or re.search(rf"\b(def|fn) {name}\b", file.read_text(encoding="utf-8")) is not None


def test_every_fault_has_its_row() -> None:
    assert [number for number, _, _ in ROWS] == NUMBERS


@pytest.mark.parametrize(("number", "shown"), [(number, shown) for number, _, shown in ROWS], ids=lambda text: text[:3])
def test_a_fault_is_shown_by_tests_that_are_there(number: str, shown: str) -> None:
    if shown.startswith("Does not concern us: "):
        return
    tests = re.findall(r"`([^`]+)`", shown)
    assert tests
    assert " ".join(f"`{test}`" for test in tests) == shown
    assert [test for test in tests if not is_there(test)] == [], number
