import sagemaker
from sagemaker.huggingface import HuggingFaceModel

model = HuggingFaceModel(
    model_data="s3://image-generation/sd/model.tar.gz",
    role=sagemaker.get_execution_role(),
    entry_point="inference.py",
    source_dir="code",
    transformers_version="4.37.0",
    pytorch_version="2.1.0",
    py_version="py310",
)
predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge", endpoint_name="sd-turbo-demo")
image = predictor.predict({"inputs": "a lighthouse in the fog", "num_inference_steps": 20})["generated_images"][0]
print(len(image))
predictor.delete_model()
predictor.delete_endpoint()
