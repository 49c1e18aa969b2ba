"""Wrong on purpose: launches train.py on four GPUs (SageMaker SDK v2)."""

from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="train.py",
    role="arn:aws:iam::111122223333:role/sagemaker",
    instance_type="ml.g5.12xlarge",
    instance_count=1,
    framework_version="2.6",
    py_version="py312",
)
estimator.fit()
