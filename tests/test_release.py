"""The artefacts that `make wheel` leaves in `dist/`: as small, as portable and as whole as promised."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.release, pytest.mark.timeout(1800)]

MEGABYTE = 1_000_000
PLATFORM = "manylinux_2_17_x86_64"
TYPED = ["_core.pyi", "_core_events.pyi", "_core_native.pyi", "py.typed"]


@pytest.fixture
def wheel(repository: Path) -> Path:
    (found,) = (repository / "dist").glob("toolrelay-*.whl")
    return found


@pytest.fixture
def sdist(repository: Path) -> Path:
    (found,) = (repository / "dist").glob("toolrelay-*.tar.gz")
    return found


@pytest.fixture
def offline(repository: Path) -> dict[str, str]:
    """An environment in which neither cargo nor pip may ask a registry; the build is a quick one."""
    target = os.environ.get("CARGO_TARGET_DIR", str(repository / "target"))
    return os.environ | {
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": target,
        "MATURIN_PEP517_ARGS": "--profile dev",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(repository / "build" / "wheelhouse"),
    }


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= 6 * MEGABYTE
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo("toolrelay/_core.abi3.so").file_size <= 16 * MEGABYTE


def test_the_wheel_runs_on_old_systems(wheel: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    assert PLATFORM in wheel.name
    audit = json.loads(run("auditwheel", "show", "--json", wheel, cwd=tmp_path))
    assert audit["overall_tag"] == PLATFORM
    run("auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", tmp_path / "repaired", wheel, cwd=tmp_path)
    (repaired,) = (tmp_path / "repaired").glob("*.whl")
    with zipfile.ZipFile(wheel) as built, zipfile.ZipFile(repaired) as mended:
        files = {name for name in mended.namelist() if not name.endswith("/")}
        assert files == set(built.namelist()), "nothing had to be bundled"


def test_the_wheel_runs_the_first_example_of_the_readme(
    repository: Path,
    wheel: Path,
    wheelhouse: Path,
    clean_environment: Path,
    tmp_path: Path,
    blocks: Callable[[Path], list[tuple[str, int]]],
    run: Callable[..., str],
) -> None:
    run(clean_environment, "-m", "pip", "install", "--no-index", "--find-links", wheelhouse, wheel, cwd=tmp_path)
    run(clean_environment, "-W", "error", "-c", blocks(repository / "README.md")[0][0], cwd=tmp_path)


def typed_files(python: Path, cwd: Path, run: Callable[..., str]) -> list[Path]:
    """Where an environment finds the package, its stub and its marker, once the native module has loaded."""
    found = run(python, "-c", "import toolrelay._core; print(toolrelay.__path__[0])", cwd=cwd)
    package = Path(found.strip())
    return [file for file in (*sorted(package.glob("*.pyi")), package / "py.typed") if file.is_file()]


def test_the_sdist_builds_offline(
    sdist: Path, clean_environment: Path, offline: dict[str, str], tmp_path: Path, run: Callable[..., str]
) -> None:
    run(clean_environment, "-m", "pip", "install", sdist, cwd=tmp_path, env=offline)
    assert [file.name for file in typed_files(clean_environment, tmp_path, run)] == TYPED


def test_an_editable_install_is_typed(
    repository: Path, clean_environment: Path, offline: dict[str, str], tmp_path: Path, run: Callable[..., str]
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(repository / name, checkout)
    for name in ("python", "rust", "stubs"):
        shutil.copytree(repository / name, checkout / name, symlinks=True)
    run(clean_environment, "-m", "pip", "install", "--editable", checkout, cwd=tmp_path, env=offline)
    files = typed_files(clean_environment, tmp_path, run)
    assert files == [checkout / "python" / "toolrelay" / name for name in TYPED]
