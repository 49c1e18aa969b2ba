import json
from pathlib import Path

from sagemaker.pytorch import PyTorch

AUGMENT = {"flip": True, "jitter": 0.2, "crop": [0.6, 1.0]}
TRAINER = Path(__file__).parent.parent / "trainer"

est = PyTorch(
    entry_point="main.py",
    source_dir=str(TRAINER),
    role="arn:aws:iam::444455556666:role/Training",
    instance_count=1,
    instance_type="ml.g6.4xlarge",
    framework_version="2.5.1",
    py_version="py311",
    environment={"AUGMENT": json.dumps(AUGMENT), "EPOCHS": 15},
    max_run=3 * 60 * 60,
)
est.fit({"train": "s3://crop-disease/train"}, wait=True)
