"""What a handler's requirements.txt lacks is installed apart, before the handler is imported."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from gpuproof.serve.errors import LoadError
from gpuproof.serve.interface import Device
from gpuproof.serve.model.importer import HandlerModules
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.model.requirements import install_missing, is_satisfied
from gpuproof.serve.settings import Settings


def wheel(folder: Path, name: str = "runway_lights", version: str = "1.0") -> Path:
    """A package of one module, as pip installs it."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", "COLOUR = 'white'\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return folder


@pytest.mark.parametrize(
    ("asked", "satisfied"),
    [
        ("", True),
        ("# nothing\n\n", True),
        ("pytest\n", True),
        ("PyTest  # the tests'\n", True),
        ("no-such-package-here\n", False),
        ("pytest==0.0.1\n", False),
        ("pytest>=1\n", False),
        ("-r more.txt\n", False),
    ],
)
def test_what_is_there_is_seen_without_pip(tmp_path: Path, asked: str, satisfied: bool) -> None:
    (tmp_path / "requirements.txt").write_text(asked)
    assert is_satisfied(tmp_path / "requirements.txt") is satisfied


@pytest.mark.parametrize(
    ("asked", "satisfied"),
    [
        ("white-lights", True),
        ("white-lights==3", True),
        ("red-lights", False),
        ("gates==1.0", True),
        ("gates==2.0", False),
    ],
)
def test_packages_in_the_handlers_lib_folder_count(tmp_path: Path, asked: str, satisfied: bool) -> None:
    lib = tmp_path / "code" / "lib"
    (lib / "white_lights").mkdir(parents=True)
    (lib / "white_lights" / "__init__.py").touch()
    with zipfile.ZipFile(next(wheel(tmp_path / "wheels", "gates").iterdir())) as file:
        file.extractall(lib)
    (tmp_path / "requirements.txt").write_text(asked)
    assert is_satisfied(tmp_path / "requirements.txt", [tmp_path / "code", lib]) is satisfied


@pytest.mark.slow
def test_a_handler_imports_what_its_requirements_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    links = wheel(tmp_path / "wheels")
    code = tmp_path / "model" / "code"
    code.mkdir(parents=True)
    (code / "requirements.txt").write_text(f"--no-index\n--find-links {links}\nrunway-lights\n")
    (code / "inference.py").write_text("import runway_lights\ndef model_fn(d): return runway_lights.COLOUR\n")
    model = load_model(tmp_path / "model", Settings(), Device())
    assert model._model == "white"  # type: ignore[attr-defined]
    model.unload()
    assert HandlerModules._active is None
    with pytest.raises(LoadError, match="runway_lights"):
        load_model(tmp_path / "model", Settings(install=False), Device())


@pytest.mark.slow
def test_what_cannot_be_installed_is_a_load_error_with_pips_words(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("--no-index\nno-such-package-here\n")
    with pytest.raises(LoadError, match="no-such-package-here") as caught:
        install_missing(tmp_path / "requirements.txt", store=tmp_path / "store")
    assert caught.value.remedy is not None
    assert "GPUPROOF_SERVE_INSTALL=off" in caught.value.remedy


@pytest.mark.slow
def test_it_is_installed_once(tmp_path: Path) -> None:
    links = wheel(tmp_path / "wheels")
    (tmp_path / "requirements.txt").write_text(f"--no-index\n--find-links {links}\nrunway-lights\n")
    first = install_missing(tmp_path / "requirements.txt", store=tmp_path / "store")
    for path in links.iterdir():
        path.unlink()
    assert first is not None
    assert install_missing(tmp_path / "requirements.txt", store=tmp_path / "store") == first
    assert (first / "runway_lights.py").is_file()
