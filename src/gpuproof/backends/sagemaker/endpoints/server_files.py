"""The files and variables with which GPUproof's server starts inside an image of AWS.

SageMaker starts a model's container with the argument `serve` and the image's own entry point, which CreateModel cannot replace:
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html. The model's environment variables can:
`PYTHONPATH` leads Python entry points to `hook/sitecustomize.py`, `BASH_ENV` leads bash entry points to `hook/bash_env.sh`.
Entry points of AWS's images, by https://github.com/aws/deep-learning-containers: `python /usr/local/bin/dockerd-entrypoint.py`
(PyTorch inference), `bash -m start_with_right_hostname.sh` (training), `bash -m …/dockerd_entrypoint.sh` (TensorFlow inference).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gpuproof.backends.agent_job.archive import agent_file

AGENT = "gpuproof-agent.pyz"
PYTHON_HOOK, BASH_HOOK = "sitecustomize.py", "bash_env.sh"

IN_MODEL = "code/.gpuproof"
"""The folder of the files in a model's archive. It is hidden, so that `import gpuproof` in a handler does not find it."""

CHANNEL = "gpuproof"
"""The name of the additional model data source that has the files, for archives that are in S3 already."""

_MODEL = "/opt/ml/model"
_ADDITIONAL = "/opt/ml/additional-model-data-sources"
"""Source: `/opt/ml/additional-model-data-sources/CHANNEL` in the SageMaker SDK v2, for draft models of speculative decoding."""

_HOOK = Path(__file__).with_name("hook")


def server_files(cache: Path) -> dict[str, Path]:
    """The files by name: the agent, which contains the server, and the hooks that start it."""
    return {
        AGENT: agent_file(cache),
        PYTHON_HOOK: _HOOK / PYTHON_HOOK,
        BASH_HOOK: _HOOK / BASH_HOOK,
    }


def server_environment(own: Mapping[str, str], *, in_model: bool) -> dict[str, str]:
    """The model's environment variables that start GPUproof's server.

    Args:
        in_model: whether the files are in the model's archive; else they are in the additional data source.
    """
    folder = f"{_MODEL}/{IN_MODEL}" if in_model else f"{_ADDITIONAL}/{CHANNEL}"
    paths = [folder, *filter(None, own.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "GPUPROOF_SERVE_WARMUP": "auto",
        **own,
        "PYTHONPATH": ":".join(paths),
        "BASH_ENV": f"{folder}/{BASH_HOOK}",
        "GPUPROOF_SERVER": f"{folder}/{AGENT}",
    }
