"""The programs in examples/ do what they say."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *arguments: str | Path, answers: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *arguments],
        cwd=EXAMPLES.parent,
        input=answers,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_every_example_has_a_test() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert {path.name for path in EXAMPLES.glob("*.py") if f'run("{path.name}"' not in tested} == set()


def test_the_demo_halts_in_one_process_and_finishes_in_another() -> None:
    told = run("demo.py")
    assert "process one ends with status pending" in told
    first, second = told.split("process two")
    assert "answered" not in first
    assert "answered, status pending" in second
    assert "answered, status done" in second
    assert "README.md begins with 'toolrelay'" in " ".join(second.replace("│", "").split())


def test_the_service_asks_the_model_once_a_turn_whoever_answers_and_how_often() -> None:
    told = run("browser_service.py")
    asked = [line.rsplit("which has ", 1)[1] for line in told.splitlines() if "asks the model" in line]
    assert asked == ["0 results", "1 results", "3 results"]
    assert told.count("the same: True") == 2
    assert told.endswith("200 done: The headline is 'Boats for sale'.\n")


@pytest.mark.parametrize(
    ("answers", "results"),
    [
        ("y\nn\ny\n", ["(no output)", "declined by the user", "answer.py\n42"]),
        ("n\nn\nn\n", ["declined by the user"] * 3),
        ("", ["declined by the user"] * 3),
    ],
    ids=["two of three", "none", "nobody is there"],
)
def test_the_coding_client_runs_what_its_user_allows(answers: str, results: list[str]) -> None:
    told = run("coding_client.py", answers=answers)
    assert told.split("This is what I got:\n")[1] == "".join(f"- {result}\n" for result in results)


def test_the_coding_client_works_in_the_folder_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    told = run("coding_client.py", "--folder", tmp_path, "--yes")
    assert told.endswith("- answer.py\nnotes.txt\n42\n")
    assert {path.name for path in tmp_path.iterdir()} == {"answer.py", "notes.txt"}


def test_the_coding_client_stops_at_control_c_while_it_asks_and_goes_on_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    kept = ["--folder", tmp_path, "--keep", tmp_path / "kept.db"]
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-W", "error", EXAMPLES / "coding_client.py", *kept],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        told = b""
        while b"run it?" not in told:
            told += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=50) == 1
        with suppress(OSError):  # which is how the end reads
            while True:
                told += os.read(ours, 1000)
    os.close(ours)
    asked = "$ echo 'print(6 * 7)' > answer.py\r\n  run it? [y/N] "
    assert told.decode() == f"{asked}\r\nstopped; start it again to go on\r\n"
    assert run("coding_client.py", *kept, "--yes").endswith("42\n")
    assert (tmp_path / "answer.py").exists()
