"""The model of the key `distribution`: a launcher's name, a mapping with its options, or the SageMaker SDK's form."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from gpuproof.jobs.distribution.launchers import (
    LAUNCHERS,
    MPI,
    MULTI_WORKER_MIRRORED,
    NONE,
    OTHER_NAMES,
    PARAMETER_SERVER,
    TORCHRUN,
    launchers_with,
)
from gpuproof.jobs.options import JOB, Option
from gpuproof.jobs.strict_model import StrictModel
from gpuproof.jobs.suggestions import did_you_mean, normalize_key
from gpuproof.jobs.validation_errors import FieldError, format_value

_HINTS = {
    "pytorchddp": "write torchrun",
    "smdistributed": "write torchrun, or mpi for model parallelism",
    "mirrored_strategy": "write distribution: mirrored",
    "horovod": "write distribution: mpi",
}
"""Keys of the SageMaker SDK's form that are not supported, and what to write."""


def _check_shell_words(text: str) -> str:
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} cannot be split into options: {str(error).lower()}") from None
    return text


class Switch(StrictModel):
    """A launcher of the SageMaker SDK's form, on or off."""

    enabled: StrictBool = Field(default=True, description="Whether this launcher is used.")


class Mpi(Switch):
    """mpirun in the SageMaker SDK's form."""

    processes_per_host: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="Processes per host; by default one per GPU, or one without GPUs."
    )
    custom_mpi_options: Annotated[str, AfterValidator(_check_shell_words)] = Field(
        default="", description="Additional options for mpirun, on one line."
    )


class SageMakerDistribution(StrictModel):
    """How a job is split into processes, as the SageMaker SDK writes it."""

    foreign_keys: ClassVar[Mapping[str, str]] = _HINTS

    torch_distributed: Switch | None = Field(default=None, description="torchrun.")
    mpi: Mpi | None = Field(default=None, description="mpirun.")
    parameter_server: Switch | None = Field(default=None, description="TensorFlow's parameter servers.")
    multi_worker_mirrored_strategy: Switch | None = Field(
        default=None, description="TensorFlow's MultiWorkerMirroredStrategy."
    )

    @model_validator(mode="after")
    def _check_only_one(self) -> SageMakerDistribution:
        enabled = self._enabled()
        if len(enabled) > 1:
            raise FieldError(
                (enabled[1],), f"only one distribution can be enabled, and {enabled[0]} is enabled too"
            )
        return self

    def options(self) -> dict[str, Any]:
        """The same as keys of `Distribution`."""
        chosen = next(iter(self._enabled()), None)
        if chosen is None:
            return {"launcher": NONE}
        if chosen != "mpi" or self.mpi is None:
            return {"launcher": _LAUNCHER_OF_KEY[chosen]}
        return {
            "launcher": MPI,
            "processes_per_host": self.mpi.processes_per_host,
            "mpi_options": self.mpi.custom_mpi_options,
        }

    def _enabled(self) -> list[str]:
        ways = ((name, getattr(self, name)) for name in type(self).model_fields)
        return [name for name, way in ways if way is not None and way.enabled]


_LAUNCHER_OF_KEY = {
    "torch_distributed": TORCHRUN,
    "mpi": MPI,
    "parameter_server": PARAMETER_SERVER,
    "multi_worker_mirrored_strategy": MULTI_WORKER_MIRRORED,
}


class Distribution(StrictModel):
    """How a job is split into processes."""

    foreign_keys: ClassVar[Mapping[str, str]] = {
        **_HINTS,
        "custom_mpi_options": "write mpi_options",
        "max_restart": "write max_restarts",
        "nproc_per_node": "write processes_per_host",
        "process_count_per_node": "write processes_per_host",
        "nnodes": "the number of hosts is instance_count",
    }
    other_forms: ClassVar[tuple[type[BaseModel], ...]] = (SageMakerDistribution,)

    launcher: str = Field(
        description="; ".join(f"{name}: {kind.description}" for name, kind in LAUNCHERS.items()) + ".",
        json_schema_extra={"enum": list(LAUNCHERS)},
    )
    processes_per_host: Annotated[Annotated[StrictInt, Field(ge=1)] | None, Option("N", group=JOB)] = Field(
        default=None,
        description="Processes on each host, with torchrun and mpi; by default one per GPU, or one without GPUs.",
        examples=[4],
    )
    max_restarts: Annotated[StrictInt, Field(ge=0)] = Field(
        default=0, description="How often torchrun restarts all processes after one has failed.", examples=[2]
    )
    mpi_options: Annotated[str, AfterValidator(_check_shell_words)] = Field(
        default="",
        description="Additional options for mpirun, on one line.",
        examples=["-x NCCL_DEBUG=INFO"],
    )

    @field_validator("launcher")
    @classmethod
    def _check_launcher(cls, name: str) -> str:
        return check_launcher(name)

    @field_validator("processes_per_host", "max_restarts", "mpi_options")
    @classmethod
    def _check_option(cls, value: Any, info: ValidationInfo) -> Any:
        launcher, option = info.data.get("launcher"), str(info.field_name)
        if launcher is None or not value or option in LAUNCHERS[launcher].options:
            return value
        raise ValueError(f"it applies to {launchers_with(option)} only, and the launcher is {launcher}")


def read_distribution(value: Any) -> Any:
    """Turns the short form and the SageMaker SDK's form into the keys of `Distribution`."""
    if isinstance(value, str):
        return {"launcher": check_launcher(value)}
    if isinstance(value, Mapping):
        if _is_sdk_form(value):
            # pydantic adds the errors of the inner model to those of the job, each with its path.
            return SageMakerDistribution.model_validate(value).options()
        return value
    if isinstance(value, BaseModel) or value is None:
        return value
    raise ValueError(
        f"it must be {_names()}, or a mapping such as {{launcher: torchrun, processes_per_host: 4}}, "
        f"not {format_value(value)}"
    )


def check_launcher(name: str) -> str:
    """Returns the name of a launcher.

    Raises:
        ValueError: unknown; with the nearest names.
    """
    if name in LAUNCHERS:
        return name
    other = OTHER_NAMES.get(normalize_key(name.strip()))
    near = f"; did you mean '{other}'?" if other else did_you_mean(name.strip(), LAUNCHERS)
    raise ValueError(f"there is no launcher '{name}'{near or f': write {_names()}'}")


DistributionField = Annotated[Distribution, BeforeValidator(read_distribution)]


def _is_sdk_form(value: Mapping[Any, Any]) -> bool:
    if "launcher" in value or not value:
        return False
    return any(key in _LAUNCHER_OF_KEY or key in _HINTS for key in value) or any(
        isinstance(item, Mapping) for item in value.values()
    )


def _names() -> str:
    first, last = list(LAUNCHERS)[:-1], list(LAUNCHERS)[-1]
    return f"{', '.join(first)} or {last}"
