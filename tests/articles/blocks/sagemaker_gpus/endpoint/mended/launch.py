import os

import numpy as np
from sagemaker.pytorch import PyTorchModel

model = PyTorchModel(
    model_data=os.environ["MODEL"],
    role=os.environ["ROLE"],
    entry_point="inference.py",
    source_dir="src",
    framework_version="2.6",
    py_version="py312",
)
predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
print("\nanswer:", np.asarray(predictor.predict(np.ones((2, 3), "float32"))).shape)
predictor.delete_model()
predictor.delete_endpoint(delete_endpoint_config=True)
