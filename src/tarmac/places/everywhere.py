"""The runs of all places: which places there are for this user, and which run is meant by a name.

boto3 is imported only where AWS is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tarmac.errors import RunNotFound, TarmacError
from tarmac.places.local.runs import local_runs
from tarmac.places.place import LOCAL, SAGEMAKER, AmbiguousRun, Run, Runs

PLACES = (LOCAL, SAGEMAKER)

_SIGNS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_SAGEMAKER",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
_FILES = {"AWS_CONFIG_FILE": ".aws/config", "AWS_SHARED_CREDENTIALS_FILE": ".aws/credentials"}


def aws_is_set_up(environment: Mapping[str, str] | None = None, home: Path | None = None) -> bool:
    """Whether this user seems to have an AWS account to ask: a look at variables and for two files.

    Source: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
    """
    known = os.environ if environment is None else environment
    if any(known.get(name) for name in _SIGNS):
        return True
    try:
        at_home = home or Path.home()
    except RuntimeError:
        return any(known.get(name) for name in _FILES)
    return any(
        Path(known.get(name) or at_home / file).expanduser().is_file() for name, file in _FILES.items()
    )


def runs_in(place: str, region: str | None = None) -> Runs:
    """The runs of one place.

    Args:
        place: `local` or `sagemaker`.
        region: of AWS; the user's own if None.
    """
    if place == LOCAL:
        return local_runs()
    from tarmac.places.aws import Aws
    from tarmac.places.sagemaker.runs import SageMakerRuns

    return SageMakerRuns(Aws(region=region))


def find_run(name: str | None, place: str | None = None, region: str | None = None) -> Run:
    """The run that a person means: on this machine if there is one of that name, else on SageMaker.

    Args:
        name: see `Runs.find`; the newest run if None.
        place: look there alone; a region alone means SageMaker.
        region: of AWS; the user's own if None.

    Raises:
        RunNotFound: no run is meant, or it cannot be told which.
    """
    if place is None and region is not None:
        place = SAGEMAKER
    if place is not None:
        runs = runs_in(place, region)
        return runs.run(runs.find(name))
    here = runs_in(LOCAL)
    try:
        return here.run(here.find(name))
    except AmbiguousRun:
        raise
    except RunNotFound as missing:
        if not aws_is_set_up():
            raise
        return _on_sagemaker(name, missing)


def _on_sagemaker(name: str | None, missing: RunNotFound) -> Run:
    runs = runs_in(SAGEMAKER)
    try:
        return runs.run(runs.find(name))
    except AmbiguousRun:
        raise
    except RunNotFound as error:
        raise RunNotFound(f"{missing.message} {error.message}", remedy=error.remedy) from error
    except TarmacError as error:
        raise RunNotFound(
            f"{missing.message} SageMaker could not be asked: {error.message}", remedy=error.remedy
        ) from error
