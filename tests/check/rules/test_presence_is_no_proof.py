"""A parameter, flag or call silences a rule by what it does, not by being there."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files


def codes(folder: Path, files: dict[str, str], select: str) -> list[str]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=(select,))))
    return [hit.code for hit in report.hits]


ESTIMATOR = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="{version}", py_version="py312", {given}).fit()
"""
INSTANCES = 'instance_type="ml.g5.xlarge", instance_count=1'


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ('instance_type="ml.g5.xlarge"', ["SDK104"]),
        ('instance_type="ml.g5.xlarge", instance_count=None', ["SDK104"]),
        (INSTANCES, []),
        ('training_recipe="training/llama/x"', []),
        ("**settings", []),
    ],
)
def test_an_estimator_needs_its_number_of_instances(given: str, found: list[str], tmp_path: Path) -> None:
    launcher = "from settings import settings\n" + ESTIMATOR.format(version="2.6", given=given)
    assert codes(tmp_path, {"launch.py": launcher}, "SDK104") == found


@pytest.mark.parametrize(
    ("given", "found"),
    [("", ["FW101"]), ("image_uri=None, ", ["FW101"]), ('image_uri="mine:1", ', [])],
)
def test_an_image_that_is_none_is_no_image(given: str, found: list[str], tmp_path: Path) -> None:
    launcher = ESTIMATOR.format(version="1.14", given=given + INSTANCES)
    assert codes(tmp_path, {"launch.py": launcher}, "FW101") == found


TENSORFLOW = """
from sagemaker.tensorflow import TensorFlow

TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge", {given}).fit()
"""
SAVES = """
import argparse
import os
import keras

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", default=os.environ["SM_MODEL_DIR"])
args = parser.parse_args()
keras.Sequential([]).save(os.path.join(args.model_dir, "1.keras"))
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("model_dir=None", ["SM104"]),
        ('model_dir="s3://bucket/out"', ["SM104"]),
        ("model_dir=False", []),
        ("model_dir=folder", []),
        ('distribution={"mpi": {"enabled": False}}', ["SM104"]),
        ('distribution={"mpi": {"enabled": True}}', []),
    ],
)
def test_the_folder_is_an_address_unless_the_estimator_passes_another(
    given: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"launch.py": TENSORFLOW.format(given=given), "train.py": SAVES}, "SM104") == found


LOOP = """
import torch
from tqdm import tqdm

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
progress = tqdm(total=10)
for _ in range(10):
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(4).cuda()).sum()).backward()
    scaler.step(optimizer)
    {update}
"""


@pytest.mark.parametrize(("update", "found"), [("progress.update(1)", ["PF113"]), ("scaler.update()", [])])
def test_the_update_of_a_progress_bar_is_not_that_of_the_scaler(
    update: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"train.py": LOOP.format(update=update)}, "PF113") == found


EPOCHS = """
import torch
from torch.utils.data import DistributedSampler

train_sampler = DistributedSampler([])
hard_sampler = DistributedSampler([])
for epoch in range(3):
    {call}.set_epoch(epoch)
    torch.ones(1).backward()
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [("hard_sampler", ["DS108"]), ("train_sampler", ["DS108"]), ("loader.sampler", [])],
)
def test_set_epoch_of_another_sampler_does_not_count(call: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": EPOCHS.format(call=call)}, "DS108") == found


GROWTH = """
import os
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
tf.config.set_visible_devices({given})
tf.config.experimental.set_memory_growth(gpus[0], True)
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [('gpus, "GPU"', ["TF106"]), ('[], "CPU"', ["TF106"]), ('gpus[0], "GPU"', []), ("some", [])],
)
def test_visible_devices_matter_if_they_are_fewer_gpus(given: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": GROWTH.format(given=given)}, "TF106") == found


HOSTS = """
import argparse
import json
import os
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--hosts", default=json.loads(os.environ["SM_HOSTS"]))
args = parser.parse_args()
with tf.distribute.MirroredStrategy().scope():
    model = tf.keras.Sequential()
    model.compile()
{use}
model.fit([])
"""
TWO = """
from sagemaker.tensorflow import TensorFlow

TensorFlow(entry_point="train.py", role="r", instance_count=2, instance_type="ml.g5.12xlarge").fit()
"""


@pytest.mark.parametrize(
    ("use", "found"),
    [("", ["DS106"]), ("files = all_files[:: len(args.hosts)]", []), ("share(vars(args))", [])],
)
def test_hosts_that_are_declared_and_not_read_share_nothing(
    use: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": TWO, "train.py": HOSTS.format(use=use)}
    assert codes(tmp_path, files, "DS106") == found
