import os

import numpy as np
from sagemaker.tensorflow import TensorFlowModel

model = TensorFlowModel(model_data=os.environ["MODEL"], role=os.environ["ROLE"], framework_version="2.19")
predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
print("\nanswer:", predictor.predict(np.zeros((1, 784)).tolist()))
predictor.delete_model()
predictor.delete_endpoint(delete_endpoint_config=True)
