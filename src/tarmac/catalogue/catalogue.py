"""The questions that the catalogue answers."""

from dataclasses import replace
from typing import Self

from tarmac.catalogue.model import Instance
from tarmac.catalogue.tables import Tables


class Catalogue:
    """Dated facts about AWS GPUs, and the questions that follow from them.

    A name that is not known answers None, an empty tuple or `unknown`: nothing here raises for it.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @classmethod
    def load(cls) -> Self:
        """The catalogue that ships with Tarmac. Files are read when a question needs them."""
        return cls(Tables())

    def instance(self, name: str) -> Instance | None:
        """The instance type called `g5.xlarge` (EC2) or `ml.g5.xlarge` (SageMaker); None if it is not known.

        A type without a GPU is known too: its `gpu_count` is 0.
        """
        ec2_type = name.removeprefix("ml.")
        found = self._tables.gpu_instances.get(ec2_type) or self._tables.other_instances.get(ec2_type)
        if found is None or name == found.name:
            return found
        return replace(found, name=name)
