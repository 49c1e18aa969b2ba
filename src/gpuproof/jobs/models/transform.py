"""The model of batch transform jobs: a model that SageMaker runs over files, with `gpuproof transform`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from gpuproof.jobs import validators
from gpuproof.jobs.models.parts import ContentType, InstanceType, JobName, PathText
from gpuproof.jobs.models.sagemaker import matching
from gpuproof.jobs.models.served_model import CONTAINER, ServedModelJob, Server
from gpuproof.jobs.options import Option
from gpuproof.jobs.validation_errors import FieldError

_Count = Annotated[int, Field(strict=True, ge=1)]
_REQUESTS = "requests"


def _input(place: str) -> str:
    if place.startswith("s3:") and not place.removeprefix("s3://").partition("/")[0]:
        raise ValueError(f"'{place}' is not an S3 address: write s3://BUCKET/PREFIX")
    return place


def _default_server(known: dict[str, Any]) -> Server:
    stays = validators.is_s3(str(known.get("model"))) and known.get("image") and known.get("code") is None
    return "image" if stays else "gpuproof"


class TransformJob(ServedModelJob):
    """A batch transform job of SageMaker, which `gpuproof transform` runs."""

    kind: Literal["transform"] = Field(default="transform", description="The kind of job.")
    model: Annotated[PathText, Option(flag="MODEL")] = Field(
        description="The model: a folder or an archive here, s3://…/model.tar.gz, a run or job name, or a model of SageMaker.",
        examples=["./digits", "s3://bucket/model.tar.gz", "train-digits"],
        json_schema_extra={"minLength": 1},
    )
    server: Annotated[Server, Option(group=CONTAINER)] = Field(
        default_factory=_default_server,
        description="GPUproof's server in the image, or the image's own; by default the image's own for a model in S3 with `image` "
        "and without `code`, which then stays where it is; else gpuproof.",
    )
    input: Annotated[PathText, AfterValidator(_input), Option("DATA")] = Field(
        description="Prefix in S3 of the data; or a file or folder here, which is uploaded, and deleted at the end.",
        examples=["s3://data/rows/", "rows"],
    )
    output: Annotated[
        str,
        matching(r"^s3://[^/]+.*$", "an S3 address: write s3://BUCKET/PREFIX"),
        AfterValidator(lambda address: address.rstrip("/")),
        Option("S3"),
    ] = Field(description="Prefix in S3 of the results.", examples=["s3://data/results"])
    name: Annotated[JobName | None, Option("NAME")] = Field(
        default=None, description="Name of the job; by default from the model's name and the time."
    )
    instance_type: Annotated[InstanceType, Option("TYPE")] = Field(
        description="Instance type of SageMaker.", examples=["ml.g5.xlarge"]
    )
    instance_count: Annotated[_Count, Option("N")] = Field(default=1, description="Number of instances.")
    content_type: Annotated[ContentType | None, Option("TYPE", group=_REQUESTS)] = Field(
        default=None,
        description="Content type of the data; by the suffix of the first object if not given.",
        examples=["text/csv"],
    )
    accept: Annotated[ContentType | None, Option("TYPE", group=_REQUESTS)] = Field(
        default=None, description="Content type of the results; the model's if not given."
    )
    split: Annotated[Literal["none", "line"], Option(group=_REQUESTS)] = Field(
        default="none",
        description="line: each line of an object is a record; none: the whole object is one request.",
    )
    records: Annotated[Literal["many", "one"] | None, Option(group=_REQUESTS)] = Field(
        default=None,
        description="With `split` line, the records of a request: as many as fit, or one; SageMaker's choice if not given.",
    )
    concurrency: Annotated[_Count | None, Option("N", group=_REQUESTS)] = Field(
        default=None,
        description="Requests at the same time on each instance; the container's choice if not given.",
    )
    max_payload: Annotated[_Count | None, Option("MB", group=_REQUESTS)] = Field(
        default=None, description="Largest request in MB; the container's choice if not given."
    )

    def _check_conflicts(self) -> None:
        if self.records is not None and self.split == "none":
            raise FieldError(("records",), "it has no effect unless `split` is line")
