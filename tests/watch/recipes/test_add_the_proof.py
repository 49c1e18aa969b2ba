"""The launchers of examples/add-the-proof, which docs/guides/add-the-proof.md shows: on Slurm and by the SDK."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.nvml_stub import build_library
from support.ports import free_port
from support.ranked_jobs import RankedJob
from support.sagemaker_recipes import Recipes
from support.slurm_cluster import slurm_cluster

pytestmark = [pytest.mark.slow, pytest.mark.journey, pytest.mark.xdist_group("watch-sagemaker")]

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "add-the-proof"
GUIDE = (ROOT / "docs" / "guides" / "add-the-proof.md").read_text()
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="not installed: torch")
# Registers each process of the script as the one that uses the GPU with its rank, then trains.
REGISTERED = """
import os, runpy
rank = 2 * int(os.environ.get("SLURM_NODEID", 0)) + int(os.environ.get("LOCAL_RANK", 0))
name = os.path.join({folder!r}, f"pid-{{rank}}")
with open(name, "w") as file:
    file.write(str(os.getpid()))
looks = os.path.getsize({looks!r})
runpy.run_path({script!r}, run_name="__main__")
while os.path.getsize({looks!r}) < looks + 12:
    pass
"""


def registered(folder: Path, looks: Path) -> str:
    """The example's script, which stays until its GPU was seen."""
    script = folder / "example.py"
    shutil.copy(EXAMPLE / "train.py", script)
    return REGISTERED.format(folder=str(folder), looks=str(looks), script=str(script))


def install(folder: Path, **modules: str) -> Path:
    """Programs that run Python with these words."""
    folder.mkdir()
    for name, words in modules.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        program.chmod(0o755)
    return folder


@pytest.mark.parametrize("name", ["slurm.sh", "kubernetes.yaml", "sagemaker_sdk.py"])
def test_the_guide_shows_the_files_of_the_example(name: str) -> None:
    text = (EXAMPLE / name).read_text()
    assert re.sub(r'\A""".*?"""\n\n', "", text, flags=re.DOTALL) in GUIDE
    assert text.count("changed; was") == 1


@needs_torch
def test_the_batch_script_has_the_verdict_on_the_job(tmp_path: Path) -> None:
    job = RankedJob(tmp_path, build_library(tmp_path / "stub"))
    job.works(0, 1, 2, 3)
    (tmp_path / "train.py").write_text(registered(tmp_path, job.looks))
    programs = install(tmp_path / "bin", gpuproof="-m gpuproof", torchrun="-m torch.distributed.run")
    # Each node has two GPUs, which Slurm here knows nothing of, and the nodes' names are no addresses.
    script = re.sub(r"#SBATCH --gpus.*\n", "", (EXAMPLE / "slurm.sh").read_text()).replace("node=8", "node=2")
    script = script.replace("$head:29500", f"127.0.0.1:{free_port()}").replace("/fsx", str(tmp_path))
    (tmp_path / "job.sh").write_text(script)
    with slurm_cluster() as cluster:
        state = cluster.run_job(
            *(f"--chdir={tmp_path}", "--output=out", str(tmp_path / "job.sh")),
            **{
                **job.variables,
                "OMP_NUM_THREADS": "1",
                "PATH": f"{programs}:{cluster.environment['PATH']}",
            },
        )
    output = (tmp_path / "out").read_text()
    assert state == "COMPLETED", output
    assert "used: 4 of 4 GPUs on 2 hosts worked" in output
    assert "step 150 loss" in output


@pytest.mark.parametrize("uses_gpu", [True, False], ids=["used", "unused"])
def test_the_job_of_the_sdk_has_the_verdict(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    code = (EXAMPLE / "sagemaker_sdk.py").read_text().replace('"examples/add-the-proof"', '"src"')
    code = code.replace("arn:aws:iam::123456789012:role/sagemaker", recipes.aws.emulator.role)
    done = recipes.run_python(code, "sagemaker-v3")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    recipes.check(uses_gpu=uses_gpu)
