import os

from sagemaker.inputs import TrainingInput
from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role=os.environ["ROLE_ARN"],
    framework_version="2.5.1",
    py_version="py311",
    instance_count=2,
    instance_type="ml.g5.12xlarge",
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"epochs": 30, "lr": 0.1},
    output_path="s3://retail-vision/models",
    max_run=12 * 3600,
)
estimator.fit({"train": TrainingInput("s3://retail-vision/shelves/", input_mode="FastFile")})
