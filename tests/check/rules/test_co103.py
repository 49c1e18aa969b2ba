"""CO103: a checkpoint location counts if the script uses it."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.g5.xlarge", use_spot_instances=True, max_run=86400, max_wait=90000,
        checkpoint_s3_uri="s3://b/c"{more}).fit()
"""
SCRIPT = "import os\nimport torch\nmodel = torch.nn.Linear(1, 1)\n"


def messages(folder: Path, script: str, more: str = "") -> list[str]:
    write_files(folder, {"launch.py": LAUNCH.format(more=more), "train.py": SCRIPT + script + "\n"})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("CO103",))))
    return [hit.finding.message for hit in report.hits]


def test_a_script_that_saves_only_its_model_is_reported(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, "torch.save(model, os.path.join(os.environ['SM_MODEL_DIR'], 'm.pt'))")
    assert "never saves to /opt/ml/checkpoints" in message


def test_a_script_that_never_loads_a_checkpoint_is_reported(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, "torch.save(model, '/opt/ml/checkpoints/m.pt')")
    assert "never loads a checkpoint" in message


@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("state = torch.load('/opt/ml/checkpoints/m.pt')\ntorch.save(model, '/opt/ml/checkpoints/m.pt')", ""),
        (
            (
                "def save(folder):\n    torch.save(model, folder + '/m.pt')\n\nFOLDER = '/opt/ml/checkpoints'\n"
                "if os.path.exists(FOLDER):\n    torch.load(FOLDER + '/m.pt')\nsave(FOLDER)"
            ),
            "",
        ),
        ("torch.load('/tmp/c/m.pt')\ntorch.save(model, '/tmp/c/m.pt')", ', checkpoint_local_path="/tmp/c"'),
        ("import unknown\nunknown.train(model)", ""),
        ("from transformers import Trainer\nTrainer(model).train(resume_from_checkpoint=last)", ""),
        ("from lightning import Trainer\nTrainer().fit(model)", ""),
    ],
)
def test_a_script_that_uses_or_may_use_it_is_not_reported(script: str, more: str, tmp_path: Path) -> None:
    assert messages(tmp_path, script, more) == []


@pytest.mark.parametrize(
    "run", ["train()", "train(resume_from_checkpoint=None)", "train(resume_from_checkpoint=False)"]
)
def test_a_trainer_that_starts_anew_is_reported(run: str, tmp_path: Path) -> None:
    (message,) = messages(tmp_path, f"from transformers import Trainer\nTrainer(model).{run}")
    assert "does not resume" in message


@pytest.mark.parametrize(
    "read",
    [
        "loader = torch.utils.data.DataLoader([])",
        "import pandas\nrows = pandas.read_csv('/opt/ml/input/data/train/a.csv')",
        "import json\njson.load(open('/opt/ml/input/config/hyperparameters.json'))",
        "print('Resuming from torch.load')",
    ],
)
def test_data_that_is_loaded_is_no_checkpoint(read: str, tmp_path: Path) -> None:
    (message,) = messages(tmp_path, f"{read}\ntorch.save(model, '/opt/ml/checkpoints/m.pt')")
    assert "never loads a checkpoint" in message
