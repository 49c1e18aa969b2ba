from sagemaker.huggingface import HuggingFaceModel

model = HuggingFaceModel(
    role="arn:aws:iam::123456789012:role/Endpoints",
    model_data="s3://toxic-123456789012/roberta/model.tar.gz",
    entry_point="inference.py",
    source_dir="code",
    transformers_version="4.37.0",
    pytorch_version="2.1.0",
    py_version="py310",
)
model.deploy(
    initial_instance_count=1,
    instance_type="ml.g5.xlarge",
    endpoint_name="toxic",
)
