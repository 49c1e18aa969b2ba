"""The keys of the jobs that serve a model in a container of SageMaker: endpoints and batch transform jobs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field

from gpuproof.jobs import validators
from gpuproof.jobs.local_paths import resolve_path
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.models.parts import Environment, PathText, Region
from gpuproof.jobs.models.sagemaker import Bucket, Role
from gpuproof.jobs.options import Option
from gpuproof.jobs.validation_errors import FieldProblem

Server = Literal["gpuproof", "image"]
CONTAINER = "container"


class ServedModelJob(JobModel):
    """A model, its handler, its container image, and what the container runs as."""

    model: Annotated[PathText, Option(flag="MODEL")] = Field(
        description="The model: a folder or an archive here, s3://…/model.tar.gz, or a run or job name.",
        examples=["./digits", "s3://bucket/model.tar.gz", "train-digits"],
        json_schema_extra={"minLength": 1},
    )
    code: Annotated[PathText | None, Option("PATH")] = Field(
        default=None,
        description="The handler: inference.py, or the folder that becomes code/.",
        examples=["serving/inference.py"],
    )
    image: Annotated[str | None, BeforeValidator(lambda uri: uri or None), Option("URI", group=CONTAINER)] = (
        Field(default=None, description="Container image; by default that of AWS for the framework.")
    )
    server: Annotated[Server, Option(group=CONTAINER)] = Field(
        default="gpuproof", description="GPUproof's server in the image, or the image's own."
    )
    framework: Annotated[Literal["pytorch", "tensorflow"] | None, Option(group=CONTAINER)] = Field(
        default=None,
        description="The framework of the model; by default found in the model.",
    )
    framework_version: Annotated[str | None, Option("VERSION", group=CONTAINER)] = Field(
        default=None,
        description="Version of the framework; by default the newest of which AWS has an image.",
        examples=["2.6"],
    )
    environment: Annotated[Environment, Option("NAME=VALUE", flag="--env", group=CONTAINER)] = Field(
        default_factory=dict,
        description="Environment variables of the container.",
        json_schema_extra={"propertyNames": {"pattern": validators.VARIABLE_NAME}},
    )
    role: Annotated[Role | None, Option("ROLE", group=CONTAINER)] = Field(
        default=None,
        description="Name or ARN of the role of the container; by default the only one that SageMaker may assume.",
    )
    bucket: Annotated[Bucket | None, Option("NAME", group=CONTAINER)] = Field(
        default=None,
        description="Bucket of the files that are uploaded; by default gpuproof-ACCOUNT-REGION.",
    )
    region: Annotated[Region | None, Option("REGION")] = Field(
        default=None,
        description="AWS region; by default that of your AWS configuration.",
        examples=["eu-west-1"],
    )

    def with_absolute_paths(self, folder: Path) -> Self:
        """Returns the job with absolute local paths; a model that is no path here is the name of a run."""
        paths = {key: getattr(self, key) for key in self._path_keys()}
        resolved = {key: resolve_path(path, folder) for key, path in paths.items() if path is not None}
        if _is_path(self.model, folder):
            resolved["model"] = resolve_path(self.model, folder)
        return self.model_copy(update=resolved)

    def missing_files(self) -> list[FieldProblem]:
        """The model if it is an absolute path, the handler and other files, as far as they do not exist."""
        named = {key: getattr(self, key) for key in self._path_keys()}
        if not validators.is_s3(self.model) and Path(self.model).is_absolute():
            named["model"] = self.model
        return [
            FieldProblem((key,), f"'{key}'", f": {path} does not exist")
            for key, path in named.items()
            if path is not None and not Path(path).exists()
        ]

    def _path_keys(self) -> tuple[str, ...]:
        """The keys of local files, besides the model."""
        return ("code",)


def _is_path(model: str, folder: Path) -> bool:
    """Whether a model is a file or folder here: it exists, or is written as one."""
    if validators.is_s3(model):
        return False
    return os.sep in model or model.startswith(("~", ".")) or (folder / model).exists()
