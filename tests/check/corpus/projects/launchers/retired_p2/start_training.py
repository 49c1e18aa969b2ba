import sagemaker
from sagemaker.pytorch import PyTorch

role = "arn:aws:iam::210987654321:role/ml-training"
bucket = "speech-enhancement-train"

pytorch_estimator = PyTorch(
    entry_point="denoise.py",
    source_dir="denoise",
    role=role,
    instance_type="ml.p2.xlarge",
    instance_count=1,
    framework_version="2.5.1",
    py_version="py311",
    hyperparameters={"steps": 50_000},
    max_run=24 * 3600,
)

pytorch_estimator.fit({"noisy": f"s3://{bucket}/noisy", "clean": f"s3://{bucket}/clean"})
