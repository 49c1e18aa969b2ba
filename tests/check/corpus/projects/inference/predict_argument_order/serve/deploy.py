"""Creates or deletes the endpoint: python deploy.py create | delete NAME."""
import os
import sys
import time

import boto3
from sagemaker.pytorch import PyTorchModel


def create():
    name = "depth-" + time.strftime("%Y%m%d%H%M")
    model = PyTorchModel(
        model_data=os.environ["MODEL_DATA"],
        role=os.environ["ROLE_ARN"],
        entry_point="handler.py",
        framework_version="2.5.1",
        py_version="py311",
    )
    model.deploy(initial_instance_count=2, instance_type="ml.g5.xlarge", endpoint_name=name, wait=False)
    print("creating", name)


def delete(name):
    boto3.client("sagemaker").delete_endpoint(EndpointName=name)


if __name__ == "__main__":
    if sys.argv[1] == "create":
        create()
    else:
        delete(sys.argv[2])
