"""What a MODEL argument may be."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gpuproof.agent.artifacts.archive_create import pack
from gpuproof.serve.errors import LoadError
from gpuproof.serve.frameworks import torch_files
from gpuproof.serve.frameworks.tensorflow_files import choose_model, saved_models
from gpuproof.serve.model.archive import describe, prepare
from support.handler_examples import example

HANDLER = "def model_fn(model_dir):\n    return 1\n"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "inference.py").write_text(HANDLER)
    return folder


def test_a_folder_with_a_handler_is_served_where_it_is(model: Path, scratch: Path) -> None:
    assert prepare(model, scratch) == model
    assert describe(model) == "handler code/inference.py"


def test_an_archive_is_unpacked(model: Path, scratch: Path, tmp_path: Path) -> None:
    pack(model, tmp_path / "model.tar.gz")
    folder = prepare(tmp_path / "model.tar.gz", scratch)
    assert (folder / "code" / "inference.py").read_text() == HANDLER


def test_an_archive_that_was_made_one_folder_too_deep_is_understood(
    model: Path, scratch: Path, tmp_path: Path
) -> None:
    (tmp_path / "deep").mkdir()
    model.rename(tmp_path / "deep" / "model")
    pack(tmp_path / "deep", tmp_path / "model.tar.gz")
    folder = prepare(tmp_path / "model.tar.gz", scratch)
    assert (folder / "code" / "inference.py").is_file()


def test_a_run_folders_archive_is_found(model: Path, scratch: Path, tmp_path: Path) -> None:
    pack(model, tmp_path / "run" / "artifacts" / "model.tar.gz")
    assert (prepare(tmp_path / "run", scratch) / "code" / "inference.py").is_file()


def test_an_archive_that_leads_out_is_refused_whole(scratch: Path, tmp_path: Path) -> None:
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("../out.py")
        tar.addfile(member, io.BytesIO())
    with pytest.raises(LoadError, match="leads out"):
        prepare(archive, scratch)


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_broken_archive_is_refused_in_words(scratch: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.tar.gz").write_bytes(content)
    with pytest.raises(LoadError, match=r"model\.tar\.gz"):
        prepare(tmp_path / "model.tar.gz", scratch)


def test_a_missing_model_lists_the_accepted_forms(scratch: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="does not exist") as caught:
        prepare(tmp_path / "none", scratch)
    assert caught.value.remedy is not None
    assert "SavedModel" in caught.value.remedy


def test_a_folder_without_a_model_lists_what_was_searched(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "readme.md").touch()
    with pytest.raises(LoadError, match=r"inference\.py.*\.keras.*It contains readme\.md"):
        prepare(tmp_path / "x", scratch)


def test_the_file_inside_a_saved_model_points_to_its_folder(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(LoadError, match="pass that folder"):
        prepare(tmp_path / "saved_model.pb", scratch)


def test_code_is_laid_over_a_model_without_a_change_to_it(model: Path, scratch: Path, tmp_path: Path) -> None:
    (model / "weights.bin").write_text("w")
    other = tmp_path / "mine.py"
    other.write_text("# other\n" + HANDLER)
    needs = tmp_path / "needs.txt"
    needs.write_text("numpy\n")
    folder = prepare(model, scratch, code=other, requirements=needs)
    assert (folder / "code" / "inference.py").read_text().startswith("# other")
    assert (folder / "code" / "requirements.txt").read_text() == "numpy\n"
    assert (folder / "weights.bin").read_text() == "w"
    assert (model / "code" / "inference.py").read_text() == HANDLER


def test_a_code_folder_keeps_its_neighbours(model: Path, scratch: Path, tmp_path: Path) -> None:
    code = tmp_path / "handler"
    code.mkdir()
    for name in ("inference.py", "network.py"):
        (code / name).write_text("")
    folder = prepare(model, scratch, code=code)
    assert sorted(path.name for path in (folder / "code").iterdir()) == ["inference.py", "network.py"]


def test_code_that_is_not_there_is_named(model: Path, scratch: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="does not exist"):
        prepare(model, scratch, code=tmp_path / "none.py")


@pytest.mark.slow
def test_pytorchs_files_are_distinguished_without_loading_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(2, 1)
    torch.save(net.state_dict(), tmp_path / "state.pth")
    torch.save(net.state_dict(), tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    torch.jit.trace(net, torch.zeros(1, 2)).save(str(tmp_path / "script.pt"))
    torch.export.save(torch.export.export(net, (torch.zeros(1, 2),)), tmp_path / "program.pt2")
    (tmp_path / "junk.pt").write_bytes(b"junk")
    kinds = {path.name: torch_files.kind_of_file(path) for path in tmp_path.iterdir()}
    assert kinds == {
        "state.pth": torch_files.PICKLED,
        "old.pth": torch_files.PICKLED,
        "script.pt": torch_files.SCRIPT,
        "program.pt2": torch_files.EXPORTED,
        "junk.pt": torch_files.OTHER,
    }


@pytest.mark.slow
def test_a_state_dict_alone_is_refused_and_with_its_code_served(scratch: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    home = example("torch_state_dict")
    folder = home.build(tmp_path / "model")
    with pytest.raises(LoadError, match="does not contain the network of its weights") as caught:
        prepare(folder / "model.pth", scratch)
    assert caught.value.remedy == "Pass code with a model_fn that loads it: --code inference.py"
    ready = prepare(folder / "model.pth", scratch, code=folder / "code")
    assert sorted(path.name for path in ready.iterdir()) == ["code", "model.pth"]


def test_a_keras_file_gets_a_folder_of_its_own(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "digits.keras").touch()
    folder = prepare(tmp_path / "digits.keras", scratch)
    assert [path.name for path in folder.iterdir()] == ["digits.keras"]
    assert describe(folder) == "digits.keras"


def saved(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").touch()
    return folder


def test_the_newest_version_of_a_saved_model_is_taken_by_number(tmp_path: Path) -> None:
    for version in ("2", "10", "9"):
        saved(tmp_path / version)
    assert choose_model(tmp_path) == tmp_path / "10"


@pytest.mark.parametrize("place", ["", "1", "export/Servo/1", "half_plus_two/00000123"])
def test_saved_models_are_found_where_exporters_put_them(tmp_path: Path, place: str) -> None:
    folder = saved(tmp_path / "m" / place)
    assert choose_model(tmp_path / "m") == folder


def test_the_default_of_several_saved_models_can_be_chosen(tmp_path: Path) -> None:
    for place in ("cats/1", "dogs/1", "dogs/00000010"):
        saved(tmp_path / place)
    assert {name: list(versions) for name, versions in saved_models(tmp_path).items()} == {
        "cats": [1],
        "dogs": [1, 10],
    }
    assert choose_model(tmp_path) == tmp_path / "cats" / "1"
    assert choose_model(tmp_path, "dogs") == tmp_path / "dogs" / "00000010"
    with pytest.raises(LoadError, match="'birds'"):
        choose_model(tmp_path, "birds")


def test_two_folders_for_the_same_version_of_a_model_are_an_error(tmp_path: Path) -> None:
    for place in ("a/cats/1", "b/cats/01"):
        saved(tmp_path / place)
    with pytest.raises(LoadError, match="version 1 of cats twice: a/cats/1 and b/cats/01"):
        choose_model(tmp_path)


def test_a_folder_of_scripts_is_not_a_model_unless_one_is_the_handler(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").touch()
    with pytest.raises(LoadError, match=r"contains no model.*It contains train\.py"):
        prepare(tmp_path / "scripts", scratch)
    (tmp_path / "scripts" / "inference.py").touch()
    assert prepare(tmp_path / "scripts", scratch) == tmp_path / "scripts"


def test_the_program_that_the_environment_names_is_a_handler(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGEMAKER_PROGRAM", "entry.py")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "entry.py").touch()
    assert prepare(tmp_path / "model", scratch) == tmp_path / "model"


def test_what_may_not_be_read_is_named() -> None:
    refused = LoadError.of(PermissionError(13, "Permission denied", "/srv/model"))
    assert refused.message == "/srv/model: Permission denied."
    assert refused.remedy is not None
    assert "user" in refused.remedy


def test_a_folder_of_many_folders_is_not_searched_to_its_end(tmp_path: Path) -> None:
    for number in range(50):
        for inner in range(50):
            (tmp_path / f"{number}" / f"{inner}").mkdir(parents=True)
    assert saved_models(tmp_path) == {}
    late = tmp_path / "49" / "49" / "saved_model.pb"
    late.touch()
    assert saved_models(tmp_path) == {}, "2,000 folders and no more"
