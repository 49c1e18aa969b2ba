"""SageMaker SDK v2: what `fit` raises where the script fails."""

import json
import sys
from pathlib import Path

from sagemaker.exceptions import UnexpectedStatusException
from sagemaker.pytorch import PyTorch

(role,) = sys.argv[1:]
estimator = PyTorch(
    entry_point="train.py",
    source_dir=str(Path(__file__).parent / "source"),
    role=role,
    instance_count=1,
    instance_type="ml.g5.xlarge",
    framework_version="2.6",
    py_version="py312",
)
try:
    estimator.fit()
except UnexpectedStatusException as error:
    print(json.dumps({"status": error.actual_status, "message": str(error)}))
