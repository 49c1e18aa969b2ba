"""Images, AMIs and drivers: the software around a GPU."""

import pytest

from gpuproof.catalogue import Catalogue, JobKind
from gpuproof.catalogue.tables import Tables

CATALOGUE = Catalogue(Tables())


# Images


def uri(
    framework: str, version: str | None, use: JobKind, instance: str, region: str = "us-east-1"
) -> str | None:
    image = CATALOGUE.image(framework, version, use, instance, region)
    return image.uri if image else None


def test_a_training_image_on_a_gpu() -> None:
    host = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
    assert uri("tensorflow", "2.21", "training", "ml.g5.xlarge") == (
        f"{host}/tensorflow-training:2.21.0-gpu-py312-cu129-amzn2023-sagemaker"
    )
    assert (
        uri("pytorch", "2.14.0", "training", "ml.g5.xlarge")
        == f"{host}/pytorch:2.14.0-cu133-amzn2023-sagemaker"
    )


def test_a_cpu_type_gets_a_cpu_image() -> None:
    found = uri("tensorflow", "2.21", "training", "ml.m5.large")
    assert found is not None
    assert "-cpu-" in found


def test_an_endpoint_gets_an_inference_image_and_processing_a_training_one() -> None:
    endpoint, processing = (
        uri("tf", "2.19", "endpoint", "ml.g5.xlarge"),
        uri("tf", "2.19", "processing", "ml.g5.xlarge"),
    )
    assert endpoint is not None
    assert processing is not None
    assert "/tensorflow-inference:" in endpoint
    assert "/tensorflow-training:" in processing


def test_ec2_gets_the_ec2_flavour_where_there_is_one() -> None:
    found = uri("torch", "2.10", "training", "g5.xlarge")
    assert found is not None
    assert found.endswith("-ec2")


def test_without_a_version_the_newest_patched_image_is_taken() -> None:
    image = CATALOGUE.image("torch", None, "training", "ml.g5.xlarge", "us-east-1")
    assert image is not None
    assert (image.row.version, image.row.status) == ("2.14.0", "patched")


def test_regions_have_registries_of_their_own() -> None:
    found = uri("torch", "2.10", "training", "ml.g4dn.xlarge", "cn-north-1")
    assert found is not None
    assert found.startswith("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/")


@pytest.mark.parametrize(
    ("framework", "version", "use", "instance", "region"),
    [
        ("tensorflow", "2.17", "training", "ml.g5.xlarge", "us-east-1"),
        ("tensorflow", "9.9", "training", "ml.g5.xlarge", "us-east-1"),
        ("theano", "1.0", "training", "ml.g5.xlarge", "us-east-1"),
        ("torch", "2.11", "endpoint", "ml.g5.xlarge", "us-east-1"),
        ("torch", "2.11", "training", "ml.g5.xlarge", "mars-north-1"),
        ("torch", "2.11", "training", "ml.g99.xlarge", "us-east-1"),
        ("torch", "2.11", "training", "ml.trn1.2xlarge", "us-east-1"),
        ("torch", "2.11", "notebook", "ml.g5.xlarge", "us-east-1"),
    ],
)
def test_where_aws_has_no_image_the_answer_is_none(
    framework: str, version: str, use: JobKind, instance: str, region: str
) -> None:
    assert CATALOGUE.image(framework, version, use, instance, region) is None


# AMIs


def test_blackwell_takes_the_open_module_and_volta_the_proprietary_one() -> None:
    assert {ami.kernel_module for ami in CATALOGUE.amis("g7e.2xlarge")} == {"open"}
    assert {ami.kernel_module for ami in CATALOGUE.amis("p3dn.24xlarge")} == {"proprietary"}


def test_amis_are_for_the_architecture_of_the_host() -> None:
    assert {ami.arch for ami in CATALOGUE.amis("g5g.xlarge")} == {"arm64"}


def test_amis_whose_notes_leave_a_family_out_are_not_offered_for_it() -> None:
    assert "2.11" not in [ami.version for ami in CATALOGUE.amis("g7e.2xlarge", "torch")]
    assert "2.11" in [ami.version for ami in CATALOGUE.amis("ml.g6.xlarge", "torch")]


def test_a_type_without_a_gpu_has_no_gpu_ami() -> None:
    assert CATALOGUE.amis("m5.large") == ()
    assert CATALOGUE.amis("g99.xlarge") == ()


# Drivers


@pytest.mark.parametrize(
    ("cuda", "minimum", "toolkit"),
    [
        ("12.9", "525.60.13", "575.51.03"),
        ("12.9.1", "525.60.13", "575.57.08"),
        ("cu130", "580", "580.65.06"),
        ("11.8", "450.80.02", "520.61.05"),
        ("10.2", "440.33", "440.33"),
        ("13.9", "580", None),
    ],
)
def test_a_cuda_version_has_a_least_driver_and_one_of_its_own(
    cuda: str, minimum: str, toolkit: str | None
) -> None:
    floor = CATALOGUE.driver_floor(cuda)
    assert floor is not None
    assert (floor.minimum, floor.toolkit) == (minimum, toolkit)


@pytest.mark.parametrize("cuda", ["99.0", "", "twelve", "6.5"])
def test_an_unknown_cuda_version_is_none(cuda: str) -> None:
    assert CATALOGUE.driver_floor(cuda) is None


def test_ptx_wants_the_driver_of_its_own_toolkit() -> None:
    floor = CATALOGUE.driver_floor("12.9")
    assert floor is not None
    assert floor.allows("535.104.05")
    assert not floor.allows("535.104.05", ptx=True)
    assert floor.allows("580.65.06", ptx=True)
    assert not floor.allows("470.256.02")
