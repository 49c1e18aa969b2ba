"""The environment variables that SageMaker sets in containers to paths, and their values.

Source: the environment variables of sagemaker-training-toolkit (`ENVIRONMENT_VARIABLES.md`) and
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html, 2026-11-21.
"""

from __future__ import annotations

MODEL_DIR = "/opt/ml/model"
INPUT_DIR = "/opt/ml/input/data"
OUTPUT_DIR = "/opt/ml/output"
CHECKPOINT_DIR = "/opt/ml/checkpoints"
PROCESSING_DIR = "/opt/ml/processing"

_PATHS = {
    "SM_MODEL_DIR": MODEL_DIR,
    "SM_OUTPUT_DIR": OUTPUT_DIR,
    "SM_OUTPUT_DATA_DIR": f"{OUTPUT_DIR}/data",
    "SM_OUTPUT_INTERMEDIATE_DIR": f"{OUTPUT_DIR}/intermediate",
    "SM_INPUT_DIR": "/opt/ml/input",
    "SM_INPUT_CONFIG_DIR": "/opt/ml/input/config",
    "SM_CHECKPOINT_DIR": CHECKPOINT_DIR,
    "SM_MODULE_DIR": "/opt/ml/code",
}


def path_of(variable: str) -> str | None:
    """The path in an environment variable that SageMaker sets: `SM_CHANNEL_TRAIN` is `/opt/ml/input/data/train`."""
    if variable.startswith("SM_CHANNEL_") and len(variable) > len("SM_CHANNEL_"):
        return f"{INPUT_DIR}/{variable.removeprefix('SM_CHANNEL_').lower()}"
    return _PATHS.get(variable)
