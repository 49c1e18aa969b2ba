"""Environment variables that change how fast a framework computes or communicates, for the run's record."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = re.compile(
    r"(NCCL|FI|CUDA|CUDNN|CUBLAS|PYTORCH|TORCH|TORCHINDUCTOR|XLA|OMP|MKL|OPENBLAS|KMP|MALLOC)_[A-Z0-9_]+"
    r"|TF_(?!VAR_|CLI_)[A-Z0-9_]+|KERAS_BACKEND|TOKENIZERS_PARALLELISM|NVIDIA_TF32_OVERRIDE|LD_PRELOAD"
)
_OF_THE_RUN = re.compile(
    r"TF_CONFIG|TORCHELASTIC_.*|CUDA_VISIBLE_DEVICES|.*_(VERSION|HOME|PATH|ROOT|DIR|FILE)"
)
"""They differ between any two runs, or say what other records say."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL", re.IGNORECASE)
_LONGEST = 200


def framework_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of frameworks, compute libraries and the allocator, wherever they were set; no others, which may be secrets.

    `TF_VAR_*` and `TF_CLI_*` are Terraform's.
    """
    return {
        name: value[:_LONGEST]
        for name, value in sorted(environment.items())
        if _NAMES.fullmatch(name)
        and not _OF_THE_RUN.fullmatch(name)
        and not _SECRET.search(name.replace("TOKENIZERS", ""))
    }
