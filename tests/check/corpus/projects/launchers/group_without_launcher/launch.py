import os

from sagemaker.pytorch import PyTorch

job = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role=os.environ["ROLE"],
    instance_count=1,
    instance_type="ml.g5.12xlarge",
    framework_version="2.5.1",
    py_version="py311",
    environment={"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"},
    max_run=8 * 3600,
)
job.fit({"train": "s3://insurance-damage/train/"})
