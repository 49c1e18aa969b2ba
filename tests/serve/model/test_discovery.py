"""Where the handler and its packages are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.serve.interface import Device
from gpuproof.serve.model.discovery import find_handler
from gpuproof.serve.model.importer import HandlerModules
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.settings import Settings
from support.model_server import ECHO, serving

HANDLER = "def model_fn(model_dir):\n    return NAME\n"


@pytest.fixture(autouse=True)
def leave_no_modules() -> Iterator[None]:
    yield
    if HandlerModules._active is not None:
        HandlerModules._active.deactivate()


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_packages_in_the_lib_folder_of_the_code_are_imported(tmp_path: Path) -> None:
    write(tmp_path / "code" / "lib" / "vendored_lights" / "__init__.py", "COLOUR = 'white'")
    write(tmp_path / "code" / "inference.py", "from vendored_lights import COLOUR as NAME\n" + HANDLER)
    load_model(tmp_path, Settings(), Device())
    found = find_handler(tmp_path, Settings())
    assert found.paths == (tmp_path / "code", tmp_path / "code" / "lib", tmp_path)


def test_a_lib_folder_elsewhere_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "lib" / "inference.py", HANDLER)
    assert find_handler(tmp_path, Settings()).file is None


@pytest.mark.slow
def test_a_shared_handler_on_s3_is_not_downloaded_silently(tmp_path: Path) -> None:
    environment = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_BASE_DIR": str(tmp_path)}
    with serving(tmp_path, ECHO, **environment, SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET="scripts") as server:
        assert f"put the handler that all models share into {tmp_path}/models/code" in server.log_text


def test_models_without_a_handler_share_the_one_of_the_multi_model_endpoint(tmp_path: Path) -> None:
    universal = write(tmp_path / "models" / "code" / "inference.py", "NAME = 'universal'\n" + HANDLER)
    requirements = write(tmp_path / "models" / "code" / "requirements.txt")
    own = write(tmp_path / "models" / "own" / "code" / "inference.py", "NAME = 'own'\n" + HANDLER)
    other = tmp_path / "models" / "other"
    other.mkdir()
    settings = Settings(multi_model=True, base_dir=str(tmp_path))
    found = find_handler(other, settings)
    assert (found.file, found.requirements) == (universal, requirements)
    assert find_handler(tmp_path / "models" / "own", settings).file == own
    assert find_handler(other, Settings(base_dir=str(tmp_path))).file is None
