import sagemaker
from sagemaker.pytorch import PyTorch

session = sagemaker.Session()

estimator = PyTorch(
    entry_point="train_dlrm.py",
    source_dir="code",
    role="arn:aws:iam::123456789012:role/service-role/SageMakerDlrm",
    framework_version="2.3",
    py_version="py311",
    instance_count=2,
    instance_type="ml.g4dn.12xlarge",
    hyperparameters={"epochs": 5},
    distribution={"torch_distributed": {"enabled": True}},
)
estimator.fit({"clicks": f"s3://{session.default_bucket()}/criteo/parquet"})
