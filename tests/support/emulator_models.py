"""Models for an emulator's endpoints: small handlers, creation of endpoints, and invocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.archives import archive
from support.cli_sandbox import until
from support.emulator_jobs import Account

SERVING_IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker"
)


def container(aws: Account, files: Mapping[str, str], **environment: str) -> dict[str, Any]:
    """A container definition whose model data has these files."""
    uri = aws.put(
        f"models/{aws.name()}/model.tar.gz", archive(**{name: text.encode() for name, text in files.items()})
    )
    return {"Image": SERVING_IMAGE, "ModelDataUrl": uri, "Environment": environment}


def configured(aws: Account, *containers: Mapping[str, Any], **variant: Any) -> str:
    """Create a model for each container and a configuration with a variant for each, `v1` and so on; returns its name."""
    client = aws.client("sagemaker")
    variants = []
    for number, definition in enumerate(containers, 1):
        model = aws.name()
        client.create_model(
            ModelName=model, ExecutionRoleArn=aws.emulator.role, PrimaryContainer=dict(definition)
        )
        variants.append(
            {
                "VariantName": f"v{number}",
                "ModelName": model,
                "InstanceType": "ml.g5.xlarge",
                "InitialInstanceCount": 1,
                **variant,
            }
        )
    config = aws.name()
    client.create_endpoint_config(EndpointConfigName=config, ProductionVariants=variants)
    return config


def deployed(aws: Account, *containers: Mapping[str, Any], **variant: Any) -> dict[str, Any]:
    """Create an endpoint and wait until it is in service or has failed; returns the output of Describe."""
    name = aws.name()
    config = configured(aws, *containers, **variant)
    aws.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName=config)
    return settled(aws, name)


def served(aws: Account, *containers: Mapping[str, Any], **variant: Any) -> str:
    """Create an endpoint that must come into service; returns its name."""
    endpoint = deployed(aws, *containers, **variant)
    assert endpoint["EndpointStatus"] == "InService", endpoint.get("FailureReason")
    return endpoint["EndpointName"]


def settled(aws: Account, name: str) -> dict[str, Any]:
    """Wait until an endpoint is in service or has failed; returns the output of Describe."""

    def poll() -> dict[str, Any] | None:
        endpoint = aws.client("sagemaker").describe_endpoint(EndpointName=name)
        return endpoint if endpoint["EndpointStatus"] in ("InService", "Failed") else None

    return until(poll, f"the endpoint {name}")


def invoke(aws: Account, name: str, body: bytes | str = b"", **more: Any) -> dict[str, Any]:
    """Invoke an endpoint; returns the response with its body read."""
    response = aws.client("sagemaker-runtime").invoke_endpoint(EndpointName=name, Body=body, **more)
    return {**response, "Body": response["Body"].read()}
