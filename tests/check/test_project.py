"""A finding follows from the job and the script together, wherever each of them is written."""

import json
from pathlib import Path

import pytest

from support.check_helpers import check_here, write_files

TRAIN = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader([]):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
LAUNCH = "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='{script}', instance_count=1, instance_type='{type}')\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def launch(instance_type: str, script: str = "train.py") -> str:
    return LAUNCH.format(script=script, type=instance_type)


def messages(*codes: str) -> list[str]:
    return [f"{hit.finding.severity} {hit.finding.message}" for hit in check_here(select=codes).hits]


def test_of_several_jobs_the_worst_is_named(here: Path) -> None:
    write_files(here, {"a.py": launch("ml.m5.large"), "b.py": launch("ml.g5.12xlarge"), "train.py": TRAIN})
    (message,) = messages("PT101")
    assert message.startswith("error")
    assert "all 4 GPUs stay idle on `ml.g5.12xlarge`" in message
    assert "b.py" in message


def test_on_a_cpu_there_is_nothing_to_say(here: Path) -> None:
    write_files(here, {"a.py": launch("ml.m5.large"), "train.py": TRAIN})
    assert messages("PT101") == []


def test_without_a_job_it_is_a_warning(here: Path) -> None:
    write_files(here, {"train.py": TRAIN})
    assert messages("PT101")[0].startswith("warning")


def test_an_unknown_instance_type_leaves_the_job_in_doubt(here: Path) -> None:
    write_files(
        here, {"a.py": LAUNCH.replace("'{type}'", "choose()").format(script="train.py"), "train.py": TRAIN}
    )
    assert messages("PT101") == []


def test_the_job_of_a_notebook_runs_the_file_that_it_writes(here: Path) -> None:
    cells = [f"%%writefile train.py\n{TRAIN}", launch("ml.g4dn.xlarge")]
    document = {"cells": [{"cell_type": "code", "source": cell} for cell in cells]}
    write_files(here, {"nb.ipynb": json.dumps(document)})
    (hit,) = check_here(select=("PT101",)).hits
    assert (hit.cell, hit.finding.location and hit.finding.location.line) == (1, 10)
    assert "the GPU stays idle on `ml.g4dn.xlarge`" in hit.finding.message


@pytest.mark.parametrize(
    ("launcher", "script"),
    [
        ("jobs/launch.py", "jobs/train.py"),
        ("jobs/launch.py", "train.py"),
        ("gpuproof.yaml", "train.py"),
    ],
)
def test_the_script_is_found_from_the_launcher_and_from_the_working_folder(
    here: Path, launcher: str, script: str
) -> None:
    text = launch("ml.g5.xlarge")
    if launcher.endswith("yaml"):
        text = "entry_point: train.py\ninstance_type: ml.g5.xlarge\n"
    write_files(here, {launcher: text, script: TRAIN})
    assert messages("PT101")[0].startswith("error")


def test_a_module_that_the_script_imports_is_judged_with_it(here: Path) -> None:
    script = "from engine import run\nrun()\n"
    write_files(here, {"a.py": launch("ml.g5.xlarge"), "train.py": script, "engine.py": TRAIN})
    (hit,) = check_here(select=("PT101",)).hits
    assert hit.span.unit.path == "engine.py"
    assert hit.finding.severity == "error"


def test_a_launcher_that_is_checked_alone_still_finds_its_script(here: Path) -> None:
    moved = TRAIN.replace("model(x)", "model(x.cuda())").replace("Linear(8, 1)", "Linear(8, 1).cuda()")
    write_files(here, {"a.py": launch("ml.g5.12xlarge"), "train.py": moved})
    assert [hit.code for hit in check_here("a.py", select=("DS101",)).hits] == ["DS101"]


def test_the_launchers_default_type_lowers_what_is_certain(here: Path) -> None:
    moved = TRAIN.replace("model(x)", "model(x.cuda())").replace("Linear(8, 1)", "Linear(8, 1).cuda()")
    text = (
        "import os\nfrom sagemaker.pytorch import PyTorch\n"
        "PyTorch(entry_point='train.py', instance_type=os.environ.get('TYPE', 'ml.g5.12xlarge'))\n"
    )
    write_files(here, {"a.py": text, "train.py": moved})
    assert messages("DS101")[0].startswith("warning")


def test_two_scripts_that_import_each_other_end(here: Path) -> None:
    write_files(here, {"a.py": "import b\n" + TRAIN, "b.py": "import a\n"})
    assert len(messages("PT101")) == 1
