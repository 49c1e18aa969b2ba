"""SageMaker SDK v2: `PyTorch(...).fit`, `PyTorchModel(...).deploy`, `predict`, `delete_endpoint`."""

import json
import sys
from pathlib import Path

import numpy as np
from botocore.exceptions import ClientError
from sagemaker.pytorch import PyTorch, PyTorchModel

(role,) = sys.argv[1:]
here = Path(__file__).parent
versions = {"framework_version": "2.6", "py_version": "py312"}
estimator = PyTorch(
    entry_point="train_torch.py",
    source_dir=str(here / "source"),
    role=role,
    instance_count=1,
    instance_type="ml.g5.xlarge",
    **versions,
)
estimator.fit()
model = PyTorchModel(
    model_data=estimator.model_data,
    role=role,
    entry_point="inference.py",
    source_dir=str(here / "serving"),
    **versions,
)
predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
answer = predictor.predict(np.array([[3.0], [4.0]], dtype=np.float32))
session = predictor.sagemaker_session
predictor.delete_endpoint()
try:
    session.sagemaker_client.describe_endpoint(EndpointName=predictor.endpoint_name)
    left = "there still"
except ClientError as error:
    left = error.response["Error"]["Message"]
print()  # the SDK ends its row of dashes with no new line
print(json.dumps({"answer": np.asarray(answer).tolist(), "left": left}))
