"""Calls that download files to a place that the processes of a host share, without a lock."""

from __future__ import annotations

import re

from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.module import Module

_WITH_FLAG = re.compile(r"^(torchvision|torchaudio|medmnist)\.datasets\.\w+$|^medmnist\.\w+$")
"""Datasets that download with `download=True`."""
_PLAIN = re.compile(
    r"^(urllib\.request\.urlretrieve|wget\.download|gdown\.download|torch\.hub\.download_url_to_file"
    r"|torchvision\.datasets\.utils\.download_\w+"
    r"|(tensorflow\.)?keras\.(datasets\.\w+\.load_data|utils\.get_file))$"
)
"""Functions that download without a lock; those of Hugging Face lock their files."""


def downloads(module: Module) -> list[Call]:
    """The calls of a module that certainly download, if the files are not there yet."""
    return module.derived(_downloads)


def _downloads(module: Module) -> list[Call]:
    found: list[Call] = []
    for call in all_calls(module):
        name = call.name or ""
        if _PLAIN.match(name) or (_WITH_FLAG.match(name) and _is_on(call)):
            found.append(call)
    return found


def _is_on(call: Call) -> bool:
    flag = call.argument("download")
    return flag.is_known and flag.flag is True
