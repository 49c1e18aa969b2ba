"""What an instance type is: the traps that other tools' GPU data falls into."""

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.tables import Tables

MIB = 1024**2
CATALOGUE = Catalogue(Tables())


def test_a_sagemaker_name_answers_with_the_ec2_type_behind_it() -> None:
    instance = CATALOGUE.instance("ml.g5.xlarge")
    assert instance is not None
    assert (instance.name, instance.ec2_type, instance.gpu_model, instance.gpu_count) == (
        "ml.g5.xlarge",
        "g5.xlarge",
        "A10G",
        1,
    )


def test_a_cpu_type_is_known_and_has_no_gpu() -> None:
    instance = CATALOGUE.instance("ml.m5.large")
    assert instance is not None
    assert (instance.gpu_model, instance.gpu_count, instance.gpu_memory, instance.vcpus) == (None, 0, 0, 2)


@pytest.mark.parametrize("name", ["ml.g99.xlarge", "x", "", "ml.", "ml.ml.g5.xlarge"])
def test_an_unknown_type_is_none(name: str) -> None:
    assert CATALOGUE.instance(name) is None
