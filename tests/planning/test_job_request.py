"""What is planned of a job: its GPUs and its launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.planning.job_request import script_of_job


@pytest.mark.parametrize(
    ("keys", "gpus", "launcher"),
    [
        ({"instance_type": "ml.g5.12xlarge", "distribution": "torchrun"}, 4, "torchrun"),
        ({"instance_type": "g6.xlarge", "distribution": {"launcher": "torchrun"}}, 1, "torchrun"),
        ({"instance_type": "ml.p4d.24xlarge", "distribution": {"launcher": "mpi"}}, 8, "mpi"),
        ({"instance_type": "ml.g5.12xlarge"}, 4, "none"),
        ({"instance_type": "ml.g5.12xlarge", "distribution": "auto"}, 4, "auto"),
        ({"instance_type": "ml.m5.xlarge"}, None, "none"),
        ({"instance_type": "ml.g99.xlarge"}, None, "none"),
        ({"resources": {"gpu": "A10G:2"}, "distribution": "torchrun"}, 2, "torchrun"),
        ({"framework": "tensorflow", "distribution": "mirrored", "instance_type": "g5.12xlarge"}, 4, "none"),
    ],
)
def test_gpus_and_launcher_of_a_job(
    tmp_path: Path, keys: dict[str, object], gpus: int | None, launcher: str
) -> None:
    (tmp_path / "train.py").write_text("")
    job = TrainingJob.model_validate({"entry_point": "train.py", "source_dir": str(tmp_path), **keys})
    found = script_of_job(job, {}, None, Catalogue.load())
    assert (found.gpus, found.launcher) == (gpus, launcher)
