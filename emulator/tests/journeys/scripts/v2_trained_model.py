"""SageMaker SDK v2: what `PyTorch(...).fit` has saved, on an asynchronous endpoint with NumPy arrays and on a multi-model endpoint."""

import json
import sys
from pathlib import Path

import numpy as np
from botocore.exceptions import ClientError
from sagemaker.async_inference import AsyncInferenceConfig
from sagemaker.async_inference.waiter_config import WaiterConfig
from sagemaker.multidatamodel import MultiDataModel
from sagemaker.pytorch import PyTorch

role, bucket = sys.argv[1:]
here = Path(__file__).parent
estimator = PyTorch(
    entry_point="train_torch.py",
    source_dir=str(here / "source"),
    role=role,
    instance_count=1,
    instance_type="ml.g5.xlarge",
    framework_version="2.6",
    py_version="py312",
)
estimator.fit()
made = {"initial_instance_count": 1, "instance_type": "ml.g5.xlarge"}
served = {"entry_point": "inference.py", "source_dir": str(here / "serving")}
rows = np.array([[3.0], [4.0]], dtype=np.float32)
found = {}

config = AsyncInferenceConfig(output_path=f"s3://{bucket}/out", failure_path=f"s3://{bucket}/failures")
predictor = estimator.create_model(role=role, **served).deploy(async_inference_config=config, **made)
waiter = WaiterConfig(max_attempts=120, delay=1)
found["async"] = np.asarray(predictor.predict(rows, waiter_config=waiter)).tolist()
try:
    predictor.predict(np.zeros((1, 2), dtype=np.float32), waiter_config=waiter)
except ValueError as error:
    found["failure"] = str(error)
predictor.delete_endpoint()

# The endpoint's model has code/inference.py; the archives below its prefix are as they are added.
model = estimator.create_model(role=role, **served)
group = MultiDataModel(
    name=f"{bucket}-group",
    model_data_prefix=f"s3://{bucket}/group/",
    model=model,
    sagemaker_session=estimator.sagemaker_session,
)
predictor = group.deploy(**made)
group.add_model(estimator.model_data, "trained.tar.gz")
group.add_model(model.repacked_model_data, "repacked.tar.gz")
found["models"] = sorted(group.list_models())
found["repacked"] = np.asarray(predictor.predict(rows, target_model="repacked.tar.gz")).tolist()
try:
    predictor.predict(rows, target_model="trained.tar.gz")
except ClientError as error:
    found["trained"] = error.response["Error"]["Message"]
predictor.delete_endpoint()
print()  # the SDK ends its row of dashes with no new line
print(json.dumps(found))
