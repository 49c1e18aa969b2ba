import os

from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py",
    source_dir=os.path.dirname(os.path.abspath(__file__)),
    role="arn:aws:iam::123456789012:role/Anomalies",
    framework_version="2.4",
    py_version="py311",
    instance_type="ml.g4dn.xlarge",
    instance_count=1,
    hyperparameters={
        "settings": "settings/prod.json",
        "dry-run": False,
    },
).fit({"sensors": "s3://plant-sensors-123456789012/2025"})
