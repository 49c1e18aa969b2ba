"""A small model on a CPU endpoint: no GPU is asked for, and none is used."""

import sagemaker
from sagemaker.huggingface import HuggingFaceModel

session = sagemaker.Session()

model = HuggingFaceModel(
    role="arn:aws:iam::123456789012:role/Endpoints",
    model_data=f"s3://{session.default_bucket()}/spam/model.tar.gz",
    entry_point="inference.py",
    source_dir="code",
    transformers_version="4.37.0",
    pytorch_version="2.1.0",
    py_version="py310",
)
predictor = model.deploy(initial_instance_count=1, instance_type="ml.c6i.xlarge", endpoint_name="spam-cpu")
print(predictor.endpoint_name)
