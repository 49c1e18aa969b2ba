"""The job that is about to run is checked with its script and what that imports."""

from pathlib import Path

import pytest

from gpuproof.check.preflight import check_job
from gpuproof.jobs.load import load
from support.check_helpers import write_files

TRAIN = """
import torch
from torch.utils.data import DataLoader
from net import Net

model = Net()
opt = torch.optim.SGD(model.parameters(), lr=1)
for x, y in DataLoader([]):
    loss = model(x).sum()
    loss.backward()
    opt.step()
"""
NET = "import torch\n\nclass Net(torch.nn.Linear):\n    pass\n"
JOB = "entry_point: train.py\ninstance_type: ml.g5.12xlarge\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_script_that_never_uses_its_gpus_is_an_error(here: Path) -> None:
    write_files(here, {"train.py": TRAIN, "net.py": NET, "gpuproof.yaml": JOB})
    found = {hit.code: hit for hit in check_job(load(here))}
    assert "PT101" in found
    assert "all 4 GPUs stay idle on `ml.g5.12xlarge`" in found["PT101"].finding.message
    assert found["PT101"].span.unit.path == "train.py"


def test_a_module_that_the_script_imports_counts(here: Path) -> None:
    write_files(
        here,
        {
            "train.py": TRAIN,
            "net.py": NET + "def place(x, where): return x.to(where)\n",
            "gpuproof.yaml": JOB,
        },
    )
    assert "PT101" not in {hit.code for hit in check_job(load(here))}


def test_settings_of_the_scripts_project_are_kept(here: Path) -> None:
    settings = '[tool.gpuproof.check]\nignore = ["PT101"]\n'
    write_files(here, {"train.py": TRAIN, "net.py": NET, "gpuproof.yaml": JOB, "pyproject.toml": settings})
    assert "PT101" not in {hit.code for hit in check_job(load(here))}


def test_a_comment_in_the_script_silences(here: Path) -> None:
    script = TRAIN.replace("loss.backward()", "loss.backward()  # noqa: PT101")
    write_files(here, {"train.py": script, "net.py": NET, "gpuproof.yaml": JOB})
    assert "PT101" not in {hit.code for hit in check_job(load(here))}


def test_a_script_without_an_instance_type_is_checked_by_itself(here: Path) -> None:
    write_files(here, {"train.py": "x = ("})
    assert [hit.code for hit in check_job(load(here / "train.py"))] == ["E901"]


def test_a_shell_script_is_not_ours(here: Path) -> None:
    write_files(here, {"train.sh": "exit 1\n", "gpuproof.yaml": "entry_point: train.sh\n"})
    assert check_job(load(here)) == []
