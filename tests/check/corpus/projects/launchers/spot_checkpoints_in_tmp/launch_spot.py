from sagemaker.pytorch import PyTorch

INSTANCE = "ml.g5.4xlarge"


def estimator(role, bucket):
    return PyTorch(
        entry_point="fit.py",
        source_dir="src",
        role=role,
        instance_count=1,
        instance_type=INSTANCE,
        framework_version="2.5.1",
        py_version="py311",
        use_spot_instances=True,
        max_run=4 * 3600,
        max_wait=12 * 3600,
        checkpoint_s3_uri=f"s3://{bucket}/checkpoints/era5",
        output_path=f"s3://{bucket}/models",
        hyperparameters={"epochs": 24},
    )


if __name__ == "__main__":
    estimator("arn:aws:iam::345678901234:role/trainer", "climate-downscaling").fit(
        {"train": "s3://climate-downscaling/era5/train"}
    )
