"""What several tests share: the repository's artefacts, the documents' code and clean environments."""

import re
import subprocess
import venv
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from harbour import RAN
from places import DURABLE
from scripted_server import ScriptedServer
from stores import Shared

REPOSITORY = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One runnable block of a document, and the number of lines above its first."""

    code: str
    above: int


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def wheelhouse(repository: Path) -> Path:
    """The wheel under test, with the wheels that it depends on."""
    folder = repository / "build" / "wheelhouse"
    assert list(folder.glob("toolrelay-*.whl")), f"{folder} holds no wheel: run `make environment`"
    return folder


@pytest.fixture(scope="session")
def blocks() -> Callable[[Path], list[Block]]:
    """The Python blocks of a Markdown document, without those that say more than `python` at their head."""

    def read(document: Path) -> list[Block]:
        text = document.read_text(encoding="utf-8")
        return [Block(found["code"], text.count("\n", 0, found.start("code"))) for found in BLOCK.finditer(text)]

    return read


@pytest.fixture
def clean_environment(tmp_path: Path) -> Path:
    """The interpreter of a new virtual environment that holds pip and nothing else."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """What a command printed. If it fails, so does the test, with all that it said."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(name="run", scope="session")
def run_fixture() -> Callable[..., str]:
    return run


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture(params=["memory", "own", *DURABLE])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    """A store of each kind."""
    shared = Shared(request.param, tmp_path)
    yield shared
    await shared.close()
