"""DS101 on scripts that ask for fewer GPUs than their instance has."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.g5.12xlarge"{more}).fit()
"""
LIGHTNING = "import lightning as L\nfrom model import Net\n"


def messages(folder: Path, script: str, more: str = "") -> list[str]:
    write_files(folder, {"launch.py": LAUNCH.format(more=more), "train.py": script + "\n"})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("DS101",))))
    return [hit.finding.message for hit in report.hits]


@pytest.mark.parametrize(
    ("script", "idle"),
    [
        (LIGHTNING + 'L.Trainer(accelerator="gpu", devices=1).fit(Net())', 3),
        (LIGHTNING + 'L.Trainer(devices="1").fit(Net())', 3),
        (LIGHTNING + "L.Trainer(devices=[0, 1]).fit(Net())", 2),
        (LIGHTNING + 'L.Trainer(devices="0,1,2").fit(Net())', 1),
        ("import pytorch_lightning as pl\nfrom model import Net\npl.Trainer(gpus=1).fit(Net())", 3),
        ('import tensorflow as tf\nstrategy = tf.distribute.MirroredStrategy(["/gpu:0", "/gpu:1"])', 2),
        ("import torch\nmodel = torch.nn.DataParallel(torch.nn.Linear(1, 1), device_ids=[0, 1]).cuda()", 2),
    ],
)
def test_a_script_that_asks_for_fewer_gpus_leaves_the_others_idle(
    script: str, idle: int, tmp_path: Path
) -> None:
    (message,) = messages(tmp_path, script)
    assert f"{idle} idle" in message


@pytest.mark.parametrize(
    "script",
    [
        LIGHTNING + "L.Trainer().fit(Net())",
        LIGHTNING + 'L.Trainer(accelerator="gpu", devices="auto").fit(Net())',
        LIGHTNING + "L.Trainer(devices=-1).fit(Net())",
        LIGHTNING + "L.Trainer(devices=4).fit(Net())",
        LIGHTNING + "import torch\nL.Trainer(devices=torch.cuda.device_count()).fit(Net())",
        LIGHTNING + "L.Trainer(devices=4).fit(Net())\nL.Trainer(devices=1).test(Net())",
        "import tensorflow as tf\nstrategy = tf.distribute.MirroredStrategy()",
        "import torch\nmodel = torch.nn.DataParallel(torch.nn.Linear(1, 1)).cuda()",
    ],
)
def test_a_script_that_asks_for_all_gpus_is_not_reported(script: str, tmp_path: Path) -> None:
    assert messages(tmp_path, script) == []


def test_a_launcher_starts_the_processes_that_each_use_one(tmp_path: Path) -> None:
    script = LIGHTNING + 'L.Trainer(accelerator="gpu", devices=1).fit(Net())'
    assert messages(tmp_path, script, ', distribution={"torch_distributed": {"enabled": True}}') == []
