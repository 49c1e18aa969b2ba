from sagemaker.huggingface import HuggingFace

estimator = HuggingFace(
    entry_point="qlora.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Qlora",
    instance_type="ml.p4d.24xlarge",
    instance_count=1,
    transformers_version="4.49.0",
    pytorch_version="2.5.1",
    py_version="py311",
    hyperparameters={"model_id": "meta-llama/Llama-3.1-70B-Instruct", "max_steps": 400},
    max_run=8 * 3600,
)
estimator.fit({"train": "s3://notes-123456789012/instructions/train"})
