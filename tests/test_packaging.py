"""The installed wheel and the sdist beside it: what they hold, say and do in a clean environment."""

import sysconfig
import tarfile
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import toolrelay
import toolrelay._core

SITE = Path(sysconfig.get_path("platlib"))
INSTALLED = metadata.distribution("toolrelay")


def package_files(repository: Path) -> set[str]:
    """The files of the package in the source tree, without what an interpreter or an editable install leaves there."""
    source = repository / "python"
    return {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file() and file.suffix not in {".pyc", ".so"}
    }


def stubs(repository: Path) -> list[Path]:
    """What the native module's typed face is written in: itself, and parts of it that are no modules when it runs."""
    found = sorted((repository / "stubs" / "toolrelay").iterdir())
    assert found[0].name == "_core.pyi"
    return found


def test_the_tests_run_against_the_wheel(repository: Path) -> None:
    assert Path(toolrelay.__file__) == SITE / "toolrelay" / "__init__.py"
    assert Path(toolrelay._core.__file__) == SITE / "toolrelay" / "_core.abi3.so"


def test_the_wheel_holds_the_package_and_nothing_else(repository: Path) -> None:
    files = [Path(str(file)) for file in INSTALLED.files or []]
    outside = [file for file in files if not file.parts[0].startswith("toolrelay")]
    inside = {str(file) for file in files if file.parts[0] == "toolrelay" and file.suffix != ".pyc"}
    assert outside == []
    assert inside == package_files(repository) | {"toolrelay/_core.abi3.so"}


def test_the_wheel_is_typed(repository: Path) -> None:
    for written in stubs(repository):
        stub = SITE / "toolrelay" / written.name
        assert not stub.is_symlink()
        assert stub.read_bytes() == written.read_bytes()
    assert (SITE / "toolrelay" / "py.typed").is_file()


def test_one_version_everywhere(repository: Path) -> None:
    manifest = tomllib.loads((repository / "Cargo.toml").read_text(encoding="utf-8"))
    assert INSTALLED.version == toolrelay.__version__ == manifest["workspace"]["package"]["version"]


def test_the_metadata_says_what_the_package_needs() -> None:
    said = INSTALLED.metadata
    assert said["Name"] == "toolrelay"
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"
    assert sorted(said.get_all("Provides-Extra") or []) == ["dbos", "demo"]
    assert sorted(requirement.split(";")[0].strip() for requirement in INSTALLED.requires or []) == [
        "dbos>=3.4,<4",
        "griffelib>=2,<3",
        "pydantic>=2.10,<3",
        "rich>=14",
        "sqlalchemy>=2.0.43,<3",
    ]


def test_the_licence_rides_along(repository: Path) -> None:
    licence = INSTALLED.read_text("licenses/LICENSE")
    assert licence == (repository / "LICENSE").read_text(encoding="utf-8")


def test_one_wheel_serves_every_python(wheelhouse: Path) -> None:
    (wheel,) = wheelhouse.glob("toolrelay-*.whl")
    assert wheel.name.split("-")[2:4] == ["cp311", "abi3"]
    assert "Tag: cp311-abi3-" in (INSTALLED.read_text("WHEEL") or "")


def test_the_sdist_holds_what_a_build_needs(repository: Path) -> None:
    (sdist,) = (repository / "build" / "sdist").glob("toolrelay-*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = {member.name.split("/", 1)[1]: member for member in archive.getmembers() if "/" in member.name}
        for written in stubs(repository):
            stub = members[f"python/toolrelay/{written.name}"]
            assert stub.isfile(), "a stub must be a file: a link may not survive where the sdist is unpacked"
            held = archive.extractfile(stub)
            assert held is not None
            assert held.read() == written.read_bytes()
    wanted = {f"python/{name}" for name in package_files(repository)}
    wanted |= {str(file.relative_to(repository)) for file in repository.glob("rust/*/src/**/*.rs")}
    wanted |= {"Cargo.lock", "Cargo.toml", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert wanted - members.keys() == set()
    assert [name for name in members if name.startswith(("target/", "build/", ".venv/"))] == []


@pytest.mark.timeout(300)
def test_the_first_example_of_the_readme_runs_after_a_plain_install(
    repository: Path,
    wheelhouse: Path,
    clean_environment: Path,
    tmp_path: Path,
    blocks: Callable[[Path], list[tuple[str, int]]],
    run: Callable[..., str],
) -> None:
    (wheel,) = wheelhouse.glob("toolrelay-*.whl")
    run(clean_environment, "-m", "pip", "install", "--no-index", "--find-links", wheelhouse, wheel, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    example = elsewhere / "example.py"
    example.write_text(blocks(repository / "README.md")[0][0], encoding="utf-8")
    run(clean_environment, "-W", "error", example, cwd=elsewhere)
