"""SageMaker SDK v2: `fit` with `distribution=`; the jobs run at the same time."""

import json
import sys
from pathlib import Path

from sagemaker.pytorch import PyTorch
from sagemaker.tensorflow import TensorFlow

(role,) = sys.argv[1:]
common = {
    "source_dir": str(Path(__file__).parent / "source"),
    "role": role,
    "instance_count": 2,
    "instance_type": "ml.g5.xlarge",
    "py_version": "py312",
}
tensorflow = {**common, "entry_point": "train_strategy.py", "framework_version": "2.19"}
jobs = {
    "torch_distributed": PyTorch(
        entry_point="train_digits.py",
        framework_version="2.6.0",
        distribution={"torch_distributed": {"enabled": True}},
        **common,
    ),
    "mpi": PyTorch(
        entry_point="train_mpi.py",
        framework_version="2.6.0",
        distribution={
            "mpi": {
                "enabled": True,
                "processes_per_host": 2,
                "custom_mpi_options": "-verbose --NCCL_DEBUG WARN",
            }
        },
        **common,
    ),
    "multi_worker_mirrored_strategy": TensorFlow(
        distribution={"multi_worker_mirrored_strategy": {"enabled": True}}, **tensorflow
    ),
    "parameter_server": TensorFlow(
        distribution={"parameter_server": {"enabled": True}}, **{**tensorflow, "instance_count": 1}
    ),
}
for estimator in jobs.values():
    estimator.fit(wait=False)
print(json.dumps({name: estimator.latest_training_job.job_name for name, estimator in jobs.items()}))
