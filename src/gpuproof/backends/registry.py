"""The runs of all places: which places there are for this user, and which run is meant by a name.

boto3 is imported only where AWS is asked.
"""

from __future__ import annotations

from gpuproof.backends.base import LOCAL, SAGEMAKER, AmbiguousRun, Run, Runs
from gpuproof.backends.local.runs import local_runs
from gpuproof.errors import GPUproofError, RunNotFound
from gpuproof.settings import aws_is_set_up

PLACES = (LOCAL, SAGEMAKER)


def runs_in(place: str, region: str | None = None) -> Runs:
    """The runs of one place.

    Args:
        place: `local` or `sagemaker`.
        region: of AWS; the user's own if None.
    """
    if place == LOCAL:
        return local_runs()
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.store import SageMakerRuns

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
    except GPUproofError as error:
        unknown = RunNotFound(
            f"{missing.message} SageMaker could not be asked: {error.message}", remedy=error.remedy
        )
        unknown.exit_code = error.exit_code
        raise unknown from error
