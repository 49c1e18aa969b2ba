"""What a script is written for is found in its code, not in its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.jobs.distribution.choose import ONE_PROCESS, STRATEGY
from gpuproof.jobs.distribution.script_use import find_uses

SAGEMAKER_MNIST = """
import os, torch.distributed as dist
def train(args):
    world_size = len(args.hosts)
    os.environ['WORLD_SIZE'] = str(world_size)
    host_rank = args.hosts.index(args.current_host)
    os.environ['RANK'] = str(host_rank)
    dist.init_process_group(backend=args.backend, rank=host_rank, world_size=world_size)
"""


def uses(folder: Path, code: str, **others: str) -> list[tuple[str, str]]:
    (folder / "train.py").write_text(code)
    for name, text in others.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return [(use.launcher, f"{use.file} {use.what}") for use in find_uses(folder, "train.py")]


@pytest.mark.parametrize(
    ("code", "launcher", "what"),
    [
        (
            "import torch.distributed as dist\ndist.init_process_group('nccl')",
            "torchrun",
            "torch.distributed",
        ),
        ("from torch import distributed\ndistributed.init_process_group()", "torchrun", "torch.distributed"),
        (
            "from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(1)",
            "torchrun",
            "DistributedDataParallel",
        ),
        ("import torch\ntorch.nn.parallel.DistributedDataParallel(1)", "torchrun", "DistributedDataParallel"),
        ("from torch.distributed.fsdp import fully_shard\nfully_shard(1)", "torchrun", "fully_shard"),
        ("from accelerate import Accelerator\nAccelerator()", "torchrun", "accelerate.Accelerator"),
        ("import lightning as L\nL.Trainer()", "torchrun", "lightning.Trainer"),
        (
            "from lightning.pytorch.cli import LightningCLI\nLightningCLI()",
            "torchrun",
            "lightning.LightningCLI",
        ),
        ("import transformers\nclass T(transformers.Trainer): pass", "torchrun", "transformers.Trainer"),
        ("import gpuproof.runtime as rt\nrt.distributed()", "torchrun", "gpuproof.runtime.distributed"),
        ("import tensorflow as tf\ntf.distribute.MirroredStrategy()", "mirrored", "MirroredStrategy"),
        (
            "from tensorflow.distribute import MultiWorkerMirroredStrategy as S\nS()",
            "multi_worker_mirrored",
            "MultiWorkerMirroredStrategy",
        ),
        (
            "import tensorflow as tf\ntf.distribute.experimental.ParameterServerStrategy(1)",
            "parameter_server",
            "ParameterServerStrategy",
        ),
        ("import gpuproof.runtime as rt\nrt.strategy()", STRATEGY, "gpuproof.runtime.strategy"),
        (
            "from gpuproof.runtime import strategy\nstrategy('parameter-server')",
            "parameter_server",
            "gpuproof.runtime.strategy",
        ),
        ("from mpi4py import MPI", "mpi", "mpi4py"),
        ("import horovod.torch as hvd", "mpi", "horovod"),
        ("from torch.nn import DataParallel\nDataParallel(1)", ONE_PROCESS, "DataParallel"),
    ],
)
def test_a_call_names_the_launcher(tmp_path: Path, code: str, launcher: str, what: str) -> None:
    assert uses(tmp_path, code) == [(launcher, f"train.py uses {what}")]


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import torch.multiprocessing as mp\nmp.spawn(f, nprocs=4)", "starts its processes with spawn"),
        ("import subprocess\nsubprocess.run(['torchrun', 'worker.py'])", "starts torchrun"),
        ("import os\nos.system('mpirun -np 2 python worker.py')", "starts mpirun"),
        ("import os\nos.environ['TF_CONFIG'] = '{}'", "sets TF_CONFIG itself"),
        (SAGEMAKER_MNIST, "sets WORLD_SIZE itself"),
    ],
)
def test_a_script_that_is_its_own_launcher_needs_none(tmp_path: Path, code: str, what: str) -> None:
    assert ("none", f"train.py {what}") in uses(tmp_path, code)


@pytest.mark.parametrize(
    "code",
    [
        "# torch.distributed.init_process_group()",
        "'torchrun'",
        "import torch.distributed as dist\nif dist.is_initialized(): print(dist.get_rank())",
        "from torch.nn.parallel import DistributedDataParallel\nisinstance(m, DistributedDataParallel)",
        "def init_process_group(): ...\ninit_process_group()",
        "import keras\nkeras.Model()",
        "this is no Python",
    ],
)
def test_words_alone_mean_nothing(tmp_path: Path, code: str) -> None:
    assert uses(tmp_path, code) == []


def test_a_rank_that_comes_from_a_launcher_is_no_rank_of_its_own(tmp_path: Path) -> None:
    code = """import os, torch.distributed as dist
hosts = os.environ.get("SM_HOSTS")
dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=2)"""
    assert [launcher for launcher, _ in uses(tmp_path, code)] == ["torchrun"]


def test_a_rank_that_is_set_only_without_a_launcher_is_no_rank_of_its_own(tmp_path: Path) -> None:
    code = """import os, torch.distributed as dist
if "RANK" not in os.environ:
    os.environ["RANK"] = str(host_index)
dist.init_process_group("nccl")"""
    assert [launcher for launcher, _ in uses(tmp_path, code)] == ["torchrun"]


def test_modules_of_the_source_folder_count(tmp_path: Path) -> None:
    trainer = "from torch.nn.parallel import DistributedDataParallel as D\nfrom . import ring\nD(1)"
    found = uses(
        tmp_path,
        "from library.trainer import Trainer\nimport library.trainer\nimport json",
        library__trainer=trainer,
        library__ring="import torch.distributed as d\nd.init_process_group()",
        unused="import mpi4py",
    )
    assert found == [
        ("torchrun", "library/trainer.py uses DistributedDataParallel"),
        ("torchrun", "library/ring.py uses torch.distributed"),
    ]


def test_an_import_of_itself_ends(tmp_path: Path) -> None:
    assert uses(tmp_path, "import train, other", other="import train") == []


def test_what_is_not_python_has_no_uses(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("torchrun train.py")
    assert find_uses(tmp_path, "train.sh") == ()
    assert find_uses(tmp_path, "missing.py") == ()
