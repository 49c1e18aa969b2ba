from sagemaker.huggingface import HuggingFace

job = HuggingFace(
    entry_point="run.py",
    source_dir=".",
    role="arn:aws:iam::210987654321:role/LlmTuning",
    instance_type="ml.g5.4xlarge",
    instance_count=1,
    transformers_version="4.46.1",
    pytorch_version="2.3.0",
    py_version="py311",
    hyperparameters={"epochs": 1, "lr": 1e-4},
    max_run=24 * 3600,
)
job.fit({"training": "s3://tuning-sets-210987654321/summaries/v3"})
