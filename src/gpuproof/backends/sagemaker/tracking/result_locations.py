"""Where SageMaker puts a job's results and checkpoints, according to the job's description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused, SageMakerKind
from gpuproof.backends.remote.results.objects import Results
from gpuproof.backends.remote.s3_layout import CHECKPOINTS, uri
from gpuproof.backends.s3_inputs.mapping import S3Prefix

_VERDICT_OUTPUT = "gpuproof"


def results_of(kind: SageMakerKind, description: Mapping[str, Any]) -> Results:
    """Where a job's results are, according to its description.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_OutputDataConfig.html
    """
    if kind == "training":
        path = description.get("OutputDataConfig", {}).get("S3OutputPath") or ""
        if not path.startswith("s3://"):
            return Results()
        return Results(S3Prefix.parse(f"{path.rstrip('/')}/{description['TrainingJobName']}/output/"))
    found = {
        output["OutputName"]: S3Prefix.parse(f"{output['S3Output']['S3Uri'].rstrip('/')}/")
        for output in description.get("ProcessingOutputConfig", {}).get("Outputs", ())
        if "S3Output" in output
    }
    verdict = found.pop(_VERDICT_OUTPUT, None)
    return Results(outputs=found, verdict=verdict)


def find_checkpoints(aws: Aws, description: Mapping[str, Any], bucket: str) -> str | None:
    """The `s3://` prefix of the checkpoints that a job left below GPUproof's prefix; None if there are none."""
    address: str = description.get("CheckpointConfig", {}).get("S3Uri", "")
    if not address.startswith(uri(bucket, CHECKPOINTS)):
        return None
    key = address.removeprefix(uri(bucket, ""))
    try:
        return address if next(aws.list_objects(bucket, key), None) is not None else None
    except AwsRefused:
        return None
