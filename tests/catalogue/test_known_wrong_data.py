"""Where other tools' GPU data is wrong: each trap by name."""

import pytest

from gpuproof.catalogue import Catalogue, Instance, InstanceQuery
from gpuproof.catalogue.tables import Tables
from gpuproof.units import CountRange, MemoryRange

MIB, GIB = 1024**2, 1024**3
CATALOGUE = Catalogue(Tables())


def known(name: str) -> Instance:
    instance = CATALOGUE.instance(name)
    assert instance is not None
    return instance


@pytest.mark.parametrize(
    ("name", "fraction", "mib"),
    [
        ("g6f.large", 0.125, 2861),
        ("g6f.xlarge", 0.125, 2861),
        ("g6f.2xlarge", 0.25, 5722),
        ("g6f.4xlarge", 0.5, 11444),
        ("gr6f.4xlarge", 0.5, 11444),
    ],
)
def test_g6f_and_gr6f_types_show_one_gpu_and_have_a_fraction_of_it(
    name: str, fraction: float, mib: int
) -> None:
    instance = known(name)
    assert (instance.gpu_model, instance.gpu_count, instance.fraction) == ("L4", 1, fraction)
    assert instance.whole_gpus == fraction
    assert instance.gpu_memory == instance.total_gpu_memory == mib * MIB


def test_a_request_for_one_l4_is_not_answered_with_an_eighth_of_one() -> None:
    found = CATALOGUE.search(InstanceQuery(gpus=("L4",), count=CountRange(1, 1)))
    assert found
    assert all(match.fraction == 1.0 for match in found)


def test_an_l4_has_22888_mib_which_is_24_gb_but_not_24_gib() -> None:
    assert known("g6.xlarge").gpu_memory == 22888 * MIB
    in_gb = CATALOGUE.search(InstanceQuery(gpus=("L4",), gpu_memory=MemoryRange.parse("24GB+")))
    in_gib = CATALOGUE.search(InstanceQuery(gpus=("L4",), gpu_memory=MemoryRange.parse("24GiB+")))
    assert "g6.xlarge" in [item.name for item in in_gb]
    assert in_gib == ()


def test_memory_is_per_gpu_and_not_the_sum() -> None:
    instance = known("g5.12xlarge")
    assert instance.gpu_memory == 22888 * MIB
    assert instance.total_gpu_memory == 4 * 22888 * MIB


def test_p4d_has_40_gib_a_gpu_and_p4de_80() -> None:
    assert known("p4d.24xlarge").gpu_memory == 40 * GIB
    assert known("p4de.24xlarge").gpu_memory == 80 * GIB
    assert known("p4d.24xlarge").gpu_model == "A100-40GB"
    assert known("p4de.24xlarge").gpu_model == "A100-80GB"


@pytest.mark.parametrize(
    ("gpu", "capability"),
    [("RTX-PRO-6000", (12, 0)), ("RTX-PRO-4500", (12, 0)), ("B300", (10, 3)), ("L4", (8, 9))],
)
def test_compute_capabilities_that_public_catalogues_get_wrong(gpu: str, capability: tuple[int, int]) -> None:
    found = CATALOGUE.gpu(gpu)
    assert found is not None
    assert found.compute_capability == capability


def test_g7e_has_a_gpu_of_capability_12_0_and_g6f_one_of_8_9() -> None:
    capabilities = {
        name: CATALOGUE.tables.gpus[known(name).gpu_model or ""].compute_capability
        for name in ("g7e.2xlarge", "g6f.large", "p6-b300.48xlarge")
    }
    assert capabilities == {"g7e.2xlarge": (12, 0), "g6f.large": (8, 9), "p6-b300.48xlarge": (10, 3)}


@pytest.mark.parametrize(
    ("name", "gpu", "count"),
    [
        ("p3.2xlarge", "V100-16GB", 1),
        ("ml.p3.2xlarge", "V100-16GB", 1),
        ("g7e.12xlarge", "RTX-PRO-6000", 2),
        ("p5.4xlarge", "H100", 1),
        ("p5.48xlarge", "H100", 8),
        ("g4dn.16xlarge", "T4", 1),
        ("g5.16xlarge", "A10G", 1),
    ],
)
def test_gpu_counts_that_size_names_mislead_about(name: str, gpu: str, count: int) -> None:
    assert (known(name).gpu_model, known(name).gpu_count) == (gpu, count)


def test_g5g_is_arm64() -> None:
    assert known("g5g.xlarge").arch == "arm64"
    assert all(instance.family != "g5g" for instance in CATALOGUE.search(InstanceQuery(arch="x86_64")))


def test_ml_t3_2xlarge_trains_has_no_gpu_and_cannot_be_an_endpoint() -> None:
    assert known("ml.t3.2xlarge").gpu_count == 0
    accepted = CATALOGUE.accepted_for("ml.t3.2xlarge")
    assert {"training", "processing", "notebook"} <= set(accepted)
    assert not {"endpoint", "transform"} & set(accepted)


@pytest.mark.parametrize("name", ["ml.p2.xlarge", "ml.p3.2xlarge", "ml.p3.16xlarge"])
def test_p2_and_p3_are_accepted_by_the_api_and_unavailable(name: str) -> None:
    assert "training" in CATALOGUE.accepted_for(name)
    assert known(name).status == "retired"
    assert CATALOGUE.offerings(name) == ()
    assert name not in [instance.name for instance in CATALOGUE.search(InstanceQuery(use="training"))]


def test_a_price_is_not_availability() -> None:
    assert CATALOGUE.price("p3.2xlarge") is not None
    assert CATALOGUE.offerings("p3.2xlarge") == ()
    assert "p3.2xlarge" not in [instance.name for instance in CATALOGUE.search(InstanceQuery())]


@pytest.mark.parametrize(
    ("ec2_type", "mark_up"),
    [
        ("g5.xlarge", 1.40),
        ("g4dn.xlarge", 1.40),
        ("g5.2xlarge", 1.25),
        ("g6.12xlarge", 1.25),
        ("p4d.24xlarge", 1.15),
    ],
)
def test_the_mark_up_of_sagemaker_differs_by_size(ec2_type: str, mark_up: float) -> None:
    ec2, sagemaker = CATALOGUE.price(ec2_type), CATALOGUE.price(f"ml.{ec2_type}", use="training")
    assert ec2 is not None
    assert sagemaker is not None
    assert sagemaker.usd_per_hour / ec2.usd_per_hour == pytest.approx(mark_up, abs=0.005)


def test_gaudi_is_not_a_gpu_although_ec2_lists_it_among_them() -> None:
    assert (known("dl1.24xlarge").gpu_count, known("dl1.24xlarge").accelerator) == (0, "gaudi")


def test_an_ec2_type_that_no_sagemaker_api_accepts_is_not_a_sagemaker_type() -> None:
    assert CATALOGUE.instance("ml.g5g.xlarge") is None
    assert CATALOGUE.instance("ml.g6f.large") is None
