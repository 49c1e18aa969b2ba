"""What silences a rule about a job, its processes or its channels is about this job, these processes, this channel."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files


def codes(folder: Path, files: dict[str, str], select: str) -> list[str]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=(select,))))
    return [hit.code for hit in report.hits]


JOB = """
from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py", role="r", framework_version="2.6", py_version="py312", instance_count={hosts},
    instance_type="ml.g5.12xlarge"
).fit({{"train": "s3://b/train"}})
"""
GROUP = """
import multiprocessing
import os
import subprocess
import sys
import torch
import torch.distributed as dist

{line}
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('subprocess.run(["python", "other.py"])', []),
        ('os.environ.setdefault("RANK", "0")', []),
        ("os.environ.update(settings)", []),
        ('os.environ.update({"WORLD_SIZE": "1"})', []),
        ("multiprocessing.Process(target=run).start()", []),
        ('subprocess.check_call([sys.executable, "-m", "pip", "install", "timm"])', ["DS123"]),
        ('os.environ.setdefault("OMP_NUM_THREADS", "4")', ["DS123"]),
        ('os.environ.update({"NCCL_DEBUG": "INFO"})', ["DS123"]),
        ("workers = multiprocessing.cpu_count()", ["DS123"]),
        ('print(os.environ.get("RANK"))', ["DS123"]),
    ],
)
def test_a_group_has_ranks_if_something_sets_them_or_starts_processes(
    line: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": JOB.format(hosts=1), "train.py": GROUP.format(line=line)}
    assert codes(tmp_path, files, "DS123") == found


HOROVOD = """
import subprocess
import sys
import horovod.torch as hvd

{line}
hvd.init()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('subprocess.run(["mpirun", "python", "other.py"])', []),
        ('subprocess.run([sys.executable, "-m", "pip", "install", "timm"])', ["DS121"]),
        ('subprocess.run("nvidia-smi", shell=True)', ["DS121"]),
    ],
)
def test_pip_starts_no_ranks(line: str, found: list[str], tmp_path: Path) -> None:
    files = {"launch.py": JOB.format(hosts=2), "train.py": HOROVOD.format(line=line)}
    assert codes(tmp_path, files, "DS121") == found


CHANNEL = """
import os

{line}
folder = os.environ["SM_CHANNEL_TRAINING"]
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('os.environ["SM_CHANNEL_TRAINING"] = "data"', []),
        ('os.environ.setdefault("SM_CHANNEL_TRAINING", "data")', []),
        ("os.environ[name] = value", []),
        ("os.environ.update(settings)", []),
        ('os.environ["OMP_NUM_THREADS"] = "4"', ["SM109"]),
        ('os.environ.setdefault("NCCL_DEBUG", "INFO")', ["SM109"]),
        ('os.environ.update({"NCCL_DEBUG": "INFO"})', ["SM109"]),
    ],
)
def test_another_variable_that_the_script_sets_is_no_channel(
    line: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": JOB.format(hosts=1), "train.py": CHANNEL.format(line=line)}
    assert codes(tmp_path, files, "SM109") == found


ALONE = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
model = torch.nn.Linear(4, 1).cuda()
{line}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    model(batch).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("model = DDP(model)", []),
        ("model.weight.register_hook(share)", []),
        ("wrap(model, process_group=dist.group.WORLD)", []),
        ("print(isinstance(model, DDP))", ["DS119"]),
        ("model.register_forward_hook(show)", ["DS119"]),
        ("wrap(model, process_group=None)", ["DS119"]),
    ],
)
def test_gradients_are_shared_by_what_wraps_or_hooks_them(
    line: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"train.py": ALONE.format(line=line)}, "DS119") == found


LOADERS = """
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("nccl")
{loaders}
for batch in train_loader:
    model(batch).sum().backward()
"""
OF_VALIDATION = "val_loader = DataLoader(val_set, sampler=DistributedSampler(val_set))\n"


@pytest.mark.parametrize(
    ("loaders", "found"),
    [
        ("train_loader = DataLoader(train_set, sampler=DistributedSampler(train_set))", []),
        (
            (
                OF_VALIDATION + "if distributed:\n    train_loader = DataLoader(train_set, sampler=s)\n"
                "else:\n    train_loader = DataLoader(train_set, shuffle=True)"
            ),
            [],
        ),
        (OF_VALIDATION + "train_loader = build(train_set)", []),
        (OF_VALIDATION + "train_loader = DataLoader(train_set, shuffle=True)", ["DS107"]),
    ],
)
def test_a_sampler_of_the_validation_set_splits_no_training_set(
    loaders: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"train.py": LOADERS.format(loaders=loaders)}, "DS107") == found


LAUNCHER = """
import shutil
import subprocess
from sagemaker.pytorch import PyTorch

{line}
PyTorch(
    entry_point="trian.py", source_dir="src", role="r", framework_version="2.6", py_version="py312",
    instance_count=1, instance_type="ml.g5.xlarge",
).fit()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('shutil.copy("templates/x.py", "src/trian.py")', []),
        ("shutil.copy(template, target)", []),
        ('subprocess.run("git clone https://example.com/x", shell=True)', []),
        ('subprocess.run("aws s3 cp --recursive s3://b/code .", shell=True)', []),
        ('shutil.copy("a.csv", "data/a.csv")', ["SM123"]),
        ('subprocess.run("wget https://example.com/a.csv", shell=True)', ["SM123"]),
    ],
)
def test_a_copy_of_data_creates_no_script(line: str, found: list[str], tmp_path: Path) -> None:
    files = {"launch.py": LAUNCHER.format(line=line), "src/train.py": "print(1)\n"}
    assert codes(tmp_path, files, "SM123") == found


KERAS = """
{line}
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential()
    model.compile()
model.fit([])
"""
TWO_HOSTS = """
from sagemaker.tensorflow import TensorFlow

TensorFlow(
    entry_point="train.py", role="r", framework_version="2.19", py_version="py312", instance_count=2,
    instance_type="ml.g5.xlarge", distribution={"multi_worker_mirrored_strategy": {"enabled": True}},
).fit()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('import os\nos.environ["TF_USE_LEGACY_KERAS"] = "1"', []),
        ('import os\nos.environ["TF_USE_LEGACY_KERAS"] = value', []),
        ('import os\nos.environ["TF_USE_LEGACY_KERAS"] = "0"', ["TF113"]),
        ('import os\nprint(os.environ.get("TF_USE_LEGACY_KERAS"))', ["TF113"]),
    ],
)
def test_legacy_keras_that_is_off_is_keras_3(line: str, found: list[str], tmp_path: Path) -> None:
    files = {"launch.py": TWO_HOSTS, "train.py": KERAS.format(line=line)}
    assert codes(tmp_path, files, "TF113") == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("print(os.environ['TF_CONFIG'])", ["TF114"]),
        ("config = json.loads(os.environ['TF_CONFIG'])", ["TF114"]),
        ("os.environ['TF_CONFIG'] = os.environ['TF_CONFIG'].replace('master', 'chief')", []),
    ],
)
def test_tf114_only_a_changed_tf_config_silences_it(tmp_path: Path, line: str, found: list[str]) -> None:
    launch = """
from sagemaker.tensorflow import TensorFlow

TensorFlow(
    entry_point="train.py", role="r", framework_version="2.14", py_version="py310", instance_count=3,
    instance_type="ml.g5.xlarge", distribution={"parameter_server": {"enabled": True}},
).fit()
"""
    train = f"""
import json
import os
import tensorflow as tf

{line}
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    weight = tf.Variable(0.0)
tf.saved_model.save(tf.Module(), os.path.join(os.environ["SM_MODEL_DIR"], "1"))
"""
    assert codes(tmp_path, {"launch.py": launch, "train.py": train}, "TF114") == found


PARSED = """
import argparse
import logging
import os
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
dist.init_process_group("nccl")
{line}
torch.cuda.set_device(args.local_rank)
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('args.local_rank = int(os.environ["LOCAL_RANK"])', []),
        ('os.environ["LOCAL_RANK"] = str(args.local_rank)', []),
        ('if "LOCAL_RANK" in os.environ:\n    args.local_rank = int(os.environ["LOCAL_RANK"])', []),
        ('rank = int(os.environ["LOCAL_RANK"])\nprint(rank)\nargs.local_rank = rank', []),
        ('rank = int(os.environ["LOCAL_RANK"])\nif rank == 0:\n    print("first")', []),
        ('rank = os.environ["LOCAL_RANK"]\ndef place(model):\n    return model.cuda(int(rank))', []),
        ('print("rank", os.environ["LOCAL_RANK"])', ["DS117"]),
        ('rank = int(os.environ["LOCAL_RANK"])\nprint(f"rank {rank}")', ["DS117"]),
        ('rank = os.environ.get("LOCAL_RANK")\nlogging.info("rank %s", rank)', ["DS117"]),
    ],
)
def test_a_local_rank_that_is_only_printed_is_not_read(line: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": PARSED.replace("{line}", line)}, "DS117") == found
