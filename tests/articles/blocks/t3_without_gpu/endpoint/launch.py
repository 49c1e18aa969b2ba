import numpy as np
import sagemaker
from sagemaker.tensorflow import TensorFlowModel

model = TensorFlowModel(
    model_data="s3://example-bucket/models/digits/output/model.tar.gz",
    role=sagemaker.get_execution_role(),
    framework_version="2.11",
    py_version="py39",
)
predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
print(predictor.predict(np.random.rand(1, 784)))
predictor.delete_endpoint()
