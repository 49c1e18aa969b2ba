"""Asynchronous endpoint that scales to zero, so that nothing is billed while the queue is empty."""
import os
import time

import boto3
from sagemaker.async_inference import AsyncInferenceConfig
from sagemaker.pytorch import PyTorchModel

NAME = f"video-matting-{int(time.time())}"


def deploy():
    model = PyTorchModel(
        model_data=os.environ["MODEL_DATA"],
        role=os.environ["ROLE_ARN"],
        entry_point="inference.py",
        source_dir="matting",
        framework_version="2.5.1",
        py_version="py311",
        env={"TS_DEFAULT_RESPONSE_TIMEOUT": "900", "SAGEMAKER_MODEL_SERVER_WORKERS": "1"},
    )
    model.deploy(
        initial_instance_count=1,
        instance_type="ml.g5.2xlarge",
        endpoint_name=NAME,
        async_inference_config=AsyncInferenceConfig(output_path=os.environ["OUTPUT"]),
    )


def scale_to_zero():
    scaling = boto3.client("application-autoscaling")
    target = dict(
        ServiceNamespace="sagemaker",
        ResourceId=f"endpoint/{NAME}/variant/AllTraffic",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
    )
    scaling.register_scalable_target(MinCapacity=0, MaxCapacity=2, **target)
    scaling.put_scaling_policy(
        PolicyName="backlog",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 4.0,
            "CustomizedMetricSpecification": {
                "MetricName": "ApproximateBacklogSizePerInstance",
                "Namespace": "AWS/SageMaker",
                "Dimensions": [{"Name": "EndpointName", "Value": NAME}],
                "Statistic": "Average",
            },
            "ScaleInCooldown": 300,
            "ScaleOutCooldown": 60,
        },
        **target,
    )


if __name__ == "__main__":
    deploy()
    scale_to_zero()
