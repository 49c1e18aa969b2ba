import sagemaker
from sagemaker.huggingface import HuggingFaceModel

model = HuggingFaceModel(
    model_data="s3://review-sentiment/models/2024-08/model.tar.gz",
    role=sagemaker.get_execution_role(),
    entry_point="inference.py",
    source_dir="code",
    transformers_version="4.37.0",
    pytorch_version="2.1.0",
    py_version="py310",
)
predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
try:
    print(predictor.predict({"inputs": ["Great product", "Never again"]}))
finally:
    predictor.delete_model()
    predictor.delete_endpoint()
