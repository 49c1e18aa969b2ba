"""The base class of every kind of job that a `gpuproof.yaml` describes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from gpuproof.jobs.validation_errors import FieldProblem, InvalidFields, collect_problems


class JobModel(BaseModel):
    """One job of a file. Validation raises InvalidFields, an InvalidJob, that names each invalid key.

    A model has at least the keys `kind`, with its own name as the default, and `name`.
    """

    # Deferred: importing this module builds no validators; using a model builds only its own.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    foreign_keys: ClassVar[dict[str, str]] = {}
    """Keys that only other kinds of job have, with what to write instead."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The keys with values of their own: a job may have 30, of which most have defaults."""
        given = self.model_fields_set - {"kind"}
        return [(key, getattr(self, key)) for key in type(self).model_fields if key in given]

    @property
    def key(self) -> str:
        """The name under which `load_jobs` returns it, if its file has no `jobs`."""
        return str(dict(self)["name"])

    def with_absolute_paths(self, folder: Path) -> Self:
        """Returns the job with absolute local paths.

        Args:
            folder: absolute; relative paths start here: the folder of the job's file, or the current directory.
        """
        del folder
        return self

    def missing_files(self) -> list[FieldProblem]:
        """Returns a problem for each local file that the job cannot start without and that does not exist."""
        return []

    def _check_conflicts(self) -> None:
        """Raises ValueError or FieldError if keys contradict each other."""

    @model_validator(mode="after")
    def _run_conflict_check(self) -> Self:
        self._check_conflicts()
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _convert_errors(cls, data: Any, handler: Callable[[Any], Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            problems = collect_problems(error, cls)
        raise InvalidFields(problems, cls.__name__)
