"""Preference tuning on spot instances."""

import sagemaker
from sagemaker.huggingface import HuggingFace

bucket = sagemaker.Session().default_bucket()
HuggingFace(
    entry_point="train.py",
    source_dir="dpo",
    role="arn:aws:iam::123456789012:role/Dpo",
    instance_type="ml.g5.2xlarge",
    instance_count=1,
    transformers_version="4.49.0",
    pytorch_version="2.5.1",
    py_version="py311",
    hyperparameters={"beta": 0.1},
    use_spot_instances=True,
    max_run=14400,
    max_wait=28800,
    checkpoint_s3_uri=f"s3://{bucket}/dpo/checkpoints",
).fit({"pairs": f"s3://{bucket}/dpo/pairs"})
