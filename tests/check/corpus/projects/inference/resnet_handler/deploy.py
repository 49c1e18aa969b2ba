import time

import sagemaker
from sagemaker.pytorch import PyTorchModel
from sagemaker.serializers import IdentitySerializer
from sagemaker.deserializers import JSONDeserializer

model = PyTorchModel(
    model_data="s3://parts-inspection/models/resnet34/model.tar.gz",
    role=sagemaker.get_execution_role(),
    entry_point="inference.py",
    source_dir="code",
    framework_version="2.5.1",
    py_version="py311",
)
predictor = model.deploy(
    initial_instance_count=1,
    instance_type="ml.g5.xlarge",
    endpoint_name=f"parts-{int(time.time())}",
    serializer=IdentitySerializer("image/jpeg"),
    deserializer=JSONDeserializer(),
)
try:
    with open("sample.jpg", "rb") as f:
        print(predictor.predict(f.read()))
finally:
    predictor.delete_model()
    predictor.delete_endpoint()
