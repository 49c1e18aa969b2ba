"""Libraries that scripts use with PyTorch, as they behave in a trace: no weights are downloaded, no kernels of their own run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.libraries.attention import replace_attention_kernels
from gpuproof.trace.pytorch.libraries.bitsandbytes import replace_bitsandbytes
from gpuproof.trace.pytorch.libraries.checkpoints import skip_checkpoints
from gpuproof.trace.pytorch.libraries.diffusers_models import build_from_config as build_diffusers
from gpuproof.trace.pytorch.libraries.distributed_training import replace_distributed_training
from gpuproof.trace.pytorch.libraries.hub import stop_retries
from gpuproof.trace.pytorch.libraries.lightning_tuner import watch_searches
from gpuproof.trace.pytorch.libraries.safetensors_files import redirect_safetensors
from gpuproof.trace.pytorch.libraries.transformers_models import build_from_config as build_transformers
from gpuproof.trace.pytorch.saved_models import SavedObjects

__all__ = ["watch_libraries"]


def watch_libraries(
    notes: Notes, saved: SavedObjects, search: Callable[[], AbstractContextManager[None]]
) -> None:
    """Change these libraries when the script imports them.

    Args:
        notes: takes what was replaced.
        saved: the files that the script saves.
        search: a context in which steps search the learning rate.
    """
    imports = ImportActions()
    stop_retries(imports)
    skip_checkpoints(imports, notes)
    build_transformers(imports, notes)
    build_diffusers(imports, notes)
    replace_attention_kernels(imports, notes)
    replace_bitsandbytes(imports, notes)
    replace_distributed_training(imports, notes)
    redirect_safetensors(imports, notes, saved)
    watch_searches(imports, notes, search)
    imports.install()
