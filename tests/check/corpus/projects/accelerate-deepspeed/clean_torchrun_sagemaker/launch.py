from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="train.py",
    source_dir="train",
    role="arn:aws:iam::123456789012:role/Diffusion",
    framework_version="2.4.0",
    py_version="py311",
    instance_type="ml.g5.12xlarge",
    instance_count=2,
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"steps": 20000, "batch-size": 16},
    max_run=12 * 3600,
    checkpoint_s3_uri="s3://diffusion-123456789012/checkpoints",
)
estimator.fit({"sprites": "s3://diffusion-123456789012/sprites"})
