"""The environment of containers that serve models of the Hugging Face Hub: TGI, vLLM, LMI and the inference toolkit."""

from __future__ import annotations

from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition

MODEL = ("HF_MODEL_ID", "OPTION_MODEL_ID", "SM_VLLM_MODEL", "MODEL_ID")
SHARDS = (
    "SM_NUM_GPUS",
    "OPTION_TENSOR_PARALLEL_DEGREE",
    "TENSOR_PARALLEL_DEGREE",
    "SM_VLLM_TENSOR_PARALLEL_SIZE",
    "NUM_SHARD",
)
"""Variables with the number of GPUs that one copy of the model is spread over."""
_QUANTIZE = ("HF_MODEL_QUANTIZE", "QUANTIZE", "OPTION_QUANTIZE", "SM_VLLM_QUANTIZATION", "BITSANDBYTES")


def variable(job: JobDefinition, *names: str) -> tuple[str, Value] | None:
    """The first of these variables that a job's container gets, with its value."""
    return next(
        ((name, job.environment.parts[name]) for name in names if name in job.environment.parts), None
    )


def is_environment_known(job: JobDefinition) -> bool:
    """Whether all variables of a job's container are known."""
    entries = job.environment.entries
    return entries is not None and entries.complete


def served_model(job: JobDefinition) -> Value | None:
    """The model of the Hub that a container downloads and serves; None if it serves another one."""
    found = variable(job, *MODEL)
    return (
        found[1]
        if found is not None
        and (found[1].text or "").count("/") == 1
        and not (found[1].text or "").startswith("/")
        else None
    )


def serves_quantized(job: JobDefinition) -> bool:
    """Whether a container may quantize the model when it loads it."""
    return not is_environment_known(job) or variable(job, *_QUANTIZE) is not None


def shards(job: JobDefinition, gpus: int) -> int | None:
    """The number of GPUs that one copy of a model is spread over; None if it is unknown.

    Args:
        gpus: GPUs of the instance.
    """
    found = variable(job, *SHARDS)
    if found is None:
        return gpus
    text = str(found[1].value)
    if text in ("max", "all"):
        return gpus
    return int(text) if text.isdigit() and int(text) > 0 else None
