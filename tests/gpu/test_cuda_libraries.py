"""Which of several copies of a CUDA library a framework would load. `libanl.so.1` of glibc stands for one that the system has, too."""

import shutil
import sys
from pathlib import Path

import pytest

from gpuproof.gpu.cuda import Library, read_libraries
from support.cuda_stub import build_any

NAME = "libanl.so.1"
WHEEL, OTHER = 91900, 91400


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_any(tmp_path_factory.mktemp("library"))


def library(folder: Path, stub: Path, version: int) -> Path:
    """A library of that name, whose cuDNN version is `version`."""
    folder.mkdir()
    (folder / f"{NAME}.version").write_text(str(version))
    return Path(shutil.copy(stub, folder / NAME))


def find(environment: dict[str, str], *folders: Path) -> Library:
    read = read_libraries(sys.executable, environment, [NAME], list(map(str, folders)), load=True)
    assert read.problem is None
    return read.libraries[0]


def test_a_wheel_takes_precedence_over_the_system(tmp_path: Path, stub: Path) -> None:
    path = library(tmp_path / "wheel", stub, WHEEL)
    assert find({}, path.parent) == Library(NAME, str(path), WHEEL)


def test_ld_library_path_takes_precedence_over_a_wheel(tmp_path: Path, stub: Path) -> None:
    wheel = library(tmp_path / "wheel", stub, WHEEL)
    other = library(tmp_path / "other", stub, OTHER)
    environment = {"LD_LIBRARY_PATH": f"/nowhere:{other.parent}"}
    assert find(environment, wheel.parent) == Library(NAME, NAME, OTHER)


def test_the_system_is_searched_last(tmp_path: Path) -> None:
    assert find({}, tmp_path) == Library(NAME, NAME)
