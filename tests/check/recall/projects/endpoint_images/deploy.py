"""Deploy the image classifier, send it one image, and delete it."""

import json
import pathlib

from sagemaker.deserializers import JSONDeserializer
from sagemaker.pytorch import PyTorchModel
from sagemaker.serializers import IdentitySerializer

model = PyTorchModel(
    model_data="s3://image-models/convnext/model.tar.gz",
    role="arn:aws:iam::111122223333:role/SageMakerEndpoints",
    entry_point="inference.py",
    source_dir="code",
    framework_version="2.6",
    py_version="py312",
)
predictor = model.deploy(
    instance_type="ml.g5.xlarge",
    initial_instance_count=1,
    endpoint_name="image-classifier",
    serializer=IdentitySerializer("application/x-image"),
    deserializer=JSONDeserializer(),
)
try:
    print(json.dumps(predictor.predict(pathlib.Path("daisy.jpg").read_bytes()), indent=2))
finally:
    predictor.delete_endpoint()
    predictor.delete_model()
