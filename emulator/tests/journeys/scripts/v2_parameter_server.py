"""SageMaker SDK v2: `TensorFlow(...).fit` with parameter servers on two hosts; the jobs run at the same time."""

import json
import sys
from pathlib import Path

from sagemaker.tensorflow import TensorFlow

(role,) = sys.argv[1:]
jobs = {
    name: TensorFlow(
        entry_point="train_servers.py",
        source_dir=str(Path(__file__).parent / "source"),
        role=role,
        instance_count=2,
        instance_type="ml.g5.xlarge",
        framework_version="2.19",
        py_version="py312",
        hyperparameters={"strategy": name},
        distribution={"parameter_server": {"enabled": True}},
    )
    for name in ("runtime", "own")
}
for estimator in jobs.values():
    estimator.fit(wait=False)
print(json.dumps({name: estimator.latest_training_job.job_name for name, estimator in jobs.items()}))
