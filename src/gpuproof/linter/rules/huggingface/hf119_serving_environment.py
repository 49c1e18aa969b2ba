"""The environment of a Hugging Face container cannot work on its instance: the endpoint fails to start.

`SM_NUM_GPUS` (TGI), `OPTION_TENSOR_PARALLEL_DEGREE` (LMI) and `SM_VLLM_TENSOR_PARALLEL_SIZE` (vLLM) must not be more than the GPUs of the instance;
TGI requires `MAX_INPUT_LENGTH` to be less than `MAX_TOTAL_TOKENS`; SageMaker only accepts strings as values; a gated model, such as those
of meta-llama, is not downloaded without a token. The container restarts until the endpoint fails, half an hour later.

Bad:

    from sagemaker.huggingface import HuggingFaceModel, get_huggingface_llm_image_uri

    environment = {
        "HF_MODEL_ID": "Qwen/Qwen2.5-7B-Instruct",
        "SM_NUM_GPUS": "4",  # <-
        "MAX_INPUT_LENGTH": "4096",  # <-
        "MAX_TOTAL_TOKENS": "4096",
    }
    model = HuggingFaceModel(image_uri=get_huggingface_llm_image_uri("huggingface"), env=environment, role="role")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.2xlarge")
    predictor.delete_endpoint()

Bad: boto3

    import boto3

    client = boto3.client("sagemaker")
    client.create_model(
        ModelName="chat",
        ExecutionRoleArn="arn:aws:iam::123456789012:role/Serve",
        PrimaryContainer={
            "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.31.0-lmi13.0.0-cu124",
            "Environment": {"HF_MODEL_ID": "Qwen/Qwen2.5-7B-Instruct", "OPTION_TENSOR_PARALLEL_DEGREE": "8"},  # <-
        },
    )
    client.create_endpoint_config(
        EndpointConfigName="chat",
        ProductionVariants=[
            {"VariantName": "a", "ModelName": "chat", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}
        ],
    )

Bad: a number, and a gated model without a token

    from sagemaker.huggingface import HuggingFaceModel, get_huggingface_llm_image_uri

    environment = {
        "HF_MODEL_ID": "meta-llama/Llama-3.1-8B-Instruct",  # <-
        "SM_NUM_GPUS": 1,  # <-
    }
    model = HuggingFaceModel(image_uri=get_huggingface_llm_image_uri("huggingface"), env=environment, role="role")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.2xlarge")
    predictor.delete_endpoint()

Bad: a task that does not exist

    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(
        env={
            "HF_MODEL_ID": "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
            "HF_TASK": "text-classifcation",  # <-
        },
        role="role", transformers_version="4.49.0", pytorch_version="2.6.0", py_version="py312",
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    predictor.delete_endpoint()

Good:

    import json
    from sagemaker.huggingface import HuggingFaceModel, get_huggingface_llm_image_uri

    environment = {
        "HF_MODEL_ID": "Qwen/Qwen2.5-7B-Instruct",
        "SM_NUM_GPUS": json.dumps(4),
        "MAX_INPUT_LENGTH": "3072",
        "MAX_TOTAL_TOKENS": "4096",
    }
    model = HuggingFaceModel(
        image_uri=get_huggingface_llm_image_uri("huggingface", version="3.0.1"), env=environment, role="role"
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.12xlarge")
    predictor.delete_endpoint()

Quiet: the token is added later

    from sagemaker.huggingface import HuggingFaceModel, get_huggingface_llm_image_uri
    from secrets_of_team import read_token

    environment = {"HF_MODEL_ID": "meta-llama/Llama-3.1-8B-Instruct", "HF_TOKEN": read_token()}
    model = HuggingFaceModel(image_uri=get_huggingface_llm_image_uri("huggingface"), env=environment, role="role")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.2xlarge")
    predictor.delete_endpoint()
"""

import re
from functools import cache
from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.jobs.suggestions import did_you_mean
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text
from gpuproof.linter.knowledge.trainers.serving import (
    MODEL,
    SHARDS,
    is_environment_known,
    served_model,
    variable,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.util.csv_table import read_rows

rule = Rule("HF119", "serving-environment", Severity.ERROR)

_GATED = re.compile(r"^(meta-llama/|google/gemma)", re.IGNORECASE)
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HF_API_TOKEN")
_LIMITS = (
    (("MAX_INPUT_LENGTH", "MAX_INPUT_TOKENS"), ("MAX_TOTAL_TOKENS",)),
    (("MAX_INPUT_LENGTH", "MAX_INPUT_TOKENS"), ("SM_VLLM_MAX_MODEL_LEN", "OPTION_MAX_MODEL_LEN")),
)
"""Pairs of variables, the first of which must be less than the second."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if (
        job.kind != "endpoint"
        or job.environment.entries is None
        or variable(job, *MODEL, *SHARDS, "HF_TASK") is None
    ):
        return
    yield from _types(job)
    yield from _shards(job, project)
    yield from _limits(job)
    yield from _token(job)
    yield from _task(job)


def _types(job: JobDefinition) -> Hits:
    """Values that are not strings."""
    for name, value in job.environment.parts.items():
        if value.is_known and isinstance(value.value, (bool, int, float)):
            yield rule.hit(
                job.where(value),
                f"`{name}` is {value.value!r}, and values of the environment must be strings: the request is rejected.",
                remedy=f'Write "{value.value}".',
            )


def _shards(job: JobDefinition, project: Project) -> Hits:
    found, gpus = variable(job, *SHARDS), gpus_per_host(project, job)
    if found is None or gpus is None:
        return
    name, value = found
    count = _number(value)
    if count is None or count <= gpus:
        return
    yield rule.hit(
        job.where(value, job.instance_type),
        f"`{name}` is {count:g}, and {host_text(job)} has {gpus} GPU{'' if gpus == 1 else 's'}: the container does not start.",
        remedy=f'Set {name} to "{gpus}", or use an instance with {count:g} GPUs.',
        severity=rule.severity if value.is_known and job.instance_type.is_known else lowered(rule.severity),
    )


def _limits(job: JobDefinition) -> Hits:
    for lower, upper in _LIMITS:
        first, second = variable(job, *lower), variable(job, *upper)
        if first is None or second is None:
            continue
        small, large = _number(first[1]), _number(second[1])
        if small is None or large is None or small < large:
            continue
        yield rule.hit(
            job.where(first[1]),
            f"`{first[0]}` ({small:g}) must be less than `{second[0]}` ({large:g}): the container does not start.",
            remedy=f"Leave room for the answer: a smaller {first[0]}, or a larger {second[0]}.",
        )


def _token(job: JobDefinition) -> Hits:
    name = served_model(job)
    if name is None or not name.is_known or not name.text or not _GATED.match(name.text):
        return
    if (
        not is_environment_known(job)
        or variable(job, *_TOKENS) is not None
        or not job.argument("model_data").is_absent
    ):
        return
    yield rule.hit(
        job.where(name),
        f"`{name.text}` is gated, and the container has no token of the Hub: it cannot download the model.",
        remedy="Pass HF_TOKEN in the environment, from AWS Secrets Manager, or put the model into S3.",
        severity=lowered(rule.severity),
    )


def _task(job: JobDefinition) -> Hits:
    found = variable(job, "HF_TASK")
    if found is None or not found[1].is_known or not found[1].text:
        return
    task = found[1].text
    if task in _tasks() or re.fullmatch(r"translation_\w+_to_\w+", task):
        return
    yield rule.hit(
        job.where(found[1]),
        f"The container does not start: `HF_TASK` {task!r} is not a task of pipeline(){did_you_mean(task, _tasks()) or '.'}",
        remedy="Name a task such as text-classification or text-generation.",
    )


@cache
def _tasks() -> tuple[str, ...]:
    path = Path(__file__).parents[2] / "data" / "pipeline_tasks.csv"
    return tuple(row["task"] for row in read_rows(path))


def _number(value: Value) -> float | None:
    if value.number is not None:
        return value.number
    return float(value.text) if value.text is not None and re.fullmatch(r"\d+", value.text) else None
