"""Start the fine-tuning on SageMaker with torchrun, one process for each GPU."""

from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::111122223333:role/SageMakerTraining",
    framework_version="2.6",
    py_version="py312",
    instance_type="ml.g5.12xlarge",
    instance_count=1,
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"epochs": 30, "batch-size": 128, "lr": 0.02},
    checkpoint_s3_uri="s3://vision-experiments/flowers102/checkpoints",
    output_path="s3://vision-experiments/flowers102/models",
    max_run=6 * 3600,
)
estimator.fit({"training": "s3://vision-experiments/flowers102/images"})
