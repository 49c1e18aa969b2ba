"""Selects one of several TensorFlow models and versions, as clients of AWS's TensorFlow Serving container do.

Source: the README of sagemaker-tensorflow-serving-container ("Specifying a model, version and method").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Generic, TypeVar

from gpuproof.serve.errors import RequestError

METHODS = ("predict", "regress", "classify")
_ATTRIBUTE = re.compile(r"tfs-(model-name|model-version|method)=([^,;\s]+)")
_SHOWN = 60
_T = TypeVar("_T")
_U = TypeVar("_U")


@dataclass(frozen=True)
class Target:
    """What a client asks for.

    Args:
        model: the model's name; empty for the default one.
        version: its version; empty for the latest one.
    """

    model: str = ""
    version: str = ""
    method: str = "predict"

    def check_method(self) -> None:
        """Raises RequestError (400) if the method is not one of `METHODS`."""
        if self.method not in METHODS:
            raise RequestError(
                400, f"The method {self.method[:_SHOWN]!r} is not supported; use {', '.join(METHODS)}."
            )


DEFAULT = Target()


@lru_cache(maxsize=64)
def read_target(custom_attributes: str) -> Target:
    """The target in `X-Amzn-SageMaker-Custom-Attributes`: `tfs-model-name`, `tfs-model-version` and `tfs-method`."""
    found = dict(_ATTRIBUTE.findall(custom_attributes))
    return Target(found.get("model-name", ""), found.get("model-version", ""), found.get("method", "predict"))


class ModelSet(Generic[_T]):
    """Models by name and version.

    Args:
        default: name of the model for clients that name none.
        aliases: other names of the default model.
    """

    def __init__(self, models: Mapping[str, Mapping[int, _T]], default: str, *aliases: str) -> None:
        self._models = models
        self._aliases = ("", *aliases)
        self.default = default

    def map(self, convert: Callable[[_T], _U]) -> ModelSet[_U]:
        """The same set with each model converted."""
        converted = {
            name: {version: convert(model) for version, model in versions.items()}
            for name, versions in self._models.items()
        }
        return ModelSet(converted, self.default, *self._aliases[1:])

    @property
    def several(self) -> bool:
        """Whether there is a choice."""
        return sum(len(versions) for versions in self._models.values()) > 1

    def latest(self, name: str = "") -> _T:
        """The latest version of a model. Raises RequestError (404)."""
        return self.find(Target(name))[1]

    def versions(self, name: str) -> Mapping[int, _T]:
        """The versions of a model. Raises RequestError (404)."""
        known = self.default if name in self._aliases else name
        if known not in self._models:
            raise RequestError(
                404, f"There is no model {name[:_SHOWN]!r}; the models are {', '.join(self._models)}."
            )
        return self._models[known]

    def find(self, target: Target) -> tuple[tuple[str, int], _T]:
        """The name and version of the requested model, and the model. Raises RequestError (404)."""
        versions = self.versions(target.model)
        name = self.default if target.model in self._aliases else target.model
        text = target.version
        version = max(versions) if not text else int(text) if _is_number(text) else None
        if version is None or version not in versions:
            raise RequestError(
                404,
                f"There is no version {text[:_SHOWN]} of {name}; the versions are "
                f"{', '.join(map(str, versions))}.",
            )
        return (name, version), versions[version]

    def get(self, key: tuple[str, int]) -> _T:
        """The model with a name and version that `find` returned."""
        return self._models[key[0]][key[1]]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
