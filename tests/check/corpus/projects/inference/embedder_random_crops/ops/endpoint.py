import argparse

import boto3
from sagemaker.model_monitor import DataCaptureConfig
from sagemaker.pytorch import PyTorchModel


def update(args):
    model = PyTorchModel(
        model_data=args.model_data,
        role=args.role,
        entry_point="inference.py",
        source_dir="service",
        framework_version="2.5.1",
        py_version="py311",
    )
    model.deploy(
        initial_instance_count=args.count,
        instance_type="ml.g6.xlarge",
        endpoint_name=args.name,
        data_capture_config=DataCaptureConfig(True, sampling_percentage=1, destination_s3_uri=args.capture),
    )


def delete(args):
    boto3.client("sagemaker").delete_endpoint(EndpointName=args.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["update", "delete"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--model-data")
    parser.add_argument("--role")
    parser.add_argument("--capture")
    parser.add_argument("--count", type=int, default=1)
    options = parser.parse_args()
    {"update": update, "delete": delete}[options.action](options)
