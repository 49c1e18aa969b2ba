import os
import time

from sagemaker.pytorch import PyTorchModel

ENDPOINT = "depth-" + time.strftime("%Y%m%d%H%M")


def main():
    model = PyTorchModel(
        model_data=os.environ["MODEL_DATA"],
        role=os.environ["ROLE_ARN"],
        entry_point="handler.py",
        framework_version="2.5.1",
        py_version="py311",
    )
    model.deploy(initial_instance_count=2, instance_type="ml.g5.xlarge", endpoint_name=ENDPOINT, wait=False)
    print("creating", ENDPOINT)


if __name__ == "__main__":
    main()
