import os

from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="pretrain.py",
    source_dir="source",
    role=os.environ["SAGEMAKER_ROLE"],
    base_job_name="smddp-roberta",
    framework_version="2.0.1",
    py_version="py310",
    instance_count=2,
    instance_type="ml.p4d.24xlarge",
    distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
    hyperparameters={"steps": 20000, "batch_size": 32},
    max_run=24 * 3600,
)
estimator.fit({"train": "s3://web-text-tokens/shards/"})
