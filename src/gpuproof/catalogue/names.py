"""Instance types and regions that a user names: unknown ones are refused, with the nearest names."""

from __future__ import annotations

from gpuproof.catalogue.catalogue import Catalogue
from gpuproof.errors import UsageError
from gpuproof.util.spelling import nearest_words


def reject_unknown_type(name: str | None, catalogue: Catalogue) -> None:
    """Raises UsageError, with the nearest names, for an instance type that the catalogue does not have."""
    if name is None or catalogue.instance(name) is not None:
        return
    ec2_type = name.removeprefix("ml.")
    if name != ec2_type and catalogue.instance(ec2_type):
        raise UsageError(
            f"SageMaker has no {name}: none of its APIs accepts it, but EC2 has {ec2_type}.",
            remedy="gpuproof gpus --on sagemaker",
        )
    prefix = name[: len(name) - len(ec2_type)]
    near = [prefix + word for word in nearest_words(ec2_type, catalogue.tables.gpu_instances, 3)]
    raise UsageError(
        f"Unknown instance type {name}.",
        remedy=f"Did you mean {' or '.join(near)}?"
        if near
        else "`gpuproof gpus` lists the types with GPUs; `gpuproof catalogue refresh` adds new ones.",
    )


def reject_unknown_region(name: str | None, catalogue: Catalogue) -> None:
    """Raises UsageError, with the nearest name, for a region that the catalogue does not have."""
    if name is None or name in catalogue.known_regions():
        return
    near = catalogue.misspelt_region(name)
    raise UsageError(
        f"Unknown region '{name}'.",
        remedy=f"Did you mean {near}?"
        if near
        else f"To add a new region: gpuproof catalogue refresh --region {name}",
    )
