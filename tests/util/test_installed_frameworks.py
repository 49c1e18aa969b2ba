"""Tests of the frameworks that an interpreter has."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from gpuproof.util.installed_frameworks import FRAMEWORK_DISTRIBUTIONS, installed_frameworks


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the only one on `sys.path`."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("torch-2.8.0+cu126.dist-info", {"torch": "2.8.0+cu126"}),
        ("tensorflow_cpu-2.21.0.dist-info", {"tensorflow": "2.21.0"}),
        ("TensorFlow-2.4.0-py3.8.egg-info", {"tensorflow": "2.4.0"}),
        ("torchvision-0.23.0.dist-info", {}),
        ("torch", {}),
        ("torch.dist-info", {}),
    ],
)
def test_a_version_is_read_from_the_name_of_the_metadata_folder(
    packages: Path, folder: str, found: dict[str, str]
) -> None:
    (packages / folder).mkdir()
    assert installed_frameworks(sys.executable) == found


def test_the_first_folder_of_sys_path_counts(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("first", "2.8.0"), ("second", "2.9.0")):
        (packages / name / f"torch-{version}.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(packages / name) for name in ("missing", "first", "second")])
    assert installed_frameworks(sys.executable) == {"torch": "2.8.0"}


def test_the_versions_are_those_of_importlib_metadata() -> None:
    found = installed_frameworks(sys.executable)
    assert found
    for module, version in found.items():
        versions = {
            distribution.version
            for name in FRAMEWORK_DISTRIBUTIONS[module]
            for distribution in metadata.Distribution.discover(name=name)
        }
        assert version in versions


def test_another_interpreter_is_started_to_read_its_own(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    # Without the virtual environment's pyvenv.cfg beside it, this interpreter has the packages of its base only.
    assert installed_frameworks(str(link)).keys() <= {"tensorflow", "keras", "torch", "jax"}


def test_an_interpreter_that_does_not_start_has_none(tmp_path: Path) -> None:
    assert installed_frameworks(str(tmp_path / "missing")) == {}
