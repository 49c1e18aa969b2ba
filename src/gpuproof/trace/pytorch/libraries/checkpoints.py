"""Weights that scripts load by a URL or a library: they are not downloaded, and the model keeps those of its creation."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import torch
import torch.hub

from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes


class MissingWeights(dict[str, Any]):
    """Takes the place of a state dictionary that was not downloaded."""


def skip_checkpoints(imports: ImportActions, notes: Notes) -> None:
    """Let `torch.hub`, torchvision, timm and PEFT load no weights."""
    load_state_dict = torch.nn.Module.load_state_dict
    skipped = False

    def from_url(url: str, *_: Any, **__: Any) -> MissingWeights:
        nonlocal skipped
        skipped = True
        notes.add("weights", f"The weights of {url} were not loaded: their values change nothing.")
        return MissingWeights()

    def load(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        # Scripts change the names of what they load, and then have an empty dictionary of their own.
        if isinstance(state_dict, MissingWeights) or (skipped and not state_dict):
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return load_state_dict(self, state_dict, *args, **kwargs)

    def skip_timm(module: Any) -> None:
        def load_pretrained(model: Any, *_: Any, **__: Any) -> None:
            notes.add("weights", f"The weights of timm's {type(model).__name__} were not loaded.")

        module.load_pretrained = load_pretrained

    def skip_peft(module: Any) -> None:
        def load_peft_weights(model_id: Any, *_: Any, **__: Any) -> MissingWeights:
            notes.add("weights", f"The weights of the adapter {model_id} were not loaded.")
            return MissingWeights()

        module.load_peft_weights = load_peft_weights

    torch.nn.Module.load_state_dict = load  # type: ignore[method-assign]
    torch.hub.load_state_dict_from_url = torch.hub.load_url = from_url
    imports.after("timm.models._builder", skip_timm)
    imports.after("peft.peft_model", skip_peft)
    # Newer than torch.hub: it has the same function under a name of its own.
    imports.after("torchvision._internally_replaced_utils", lambda it: _set(it, from_url))


def _set(module: Any, from_url: Any) -> None:
    module.load_state_dict_from_url = from_url
