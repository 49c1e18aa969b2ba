"""Prices, offerings, quotas, replacements, images, AMIs, drivers, accepted types."""

from datetime import date
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue, JobKind
from gpuproof.catalogue.prices import is_old
from gpuproof.catalogue.sagemaker_api_types import accepted_types, service_model
from gpuproof.catalogue.tables import Tables

CATALOGUE = Catalogue(Tables())


# Prices


def test_a_price_states_whether_it_was_observed_and_when() -> None:
    price = CATALOGUE.price("g5.xlarge")
    assert price is not None
    assert (price.usd_per_hour, price.kind, price.as_of) == (1.006, "observed", "2026-07-20")


def test_a_price_of_another_use_is_marked_derived() -> None:
    price = CATALOGUE.price("ml.g5.xlarge", "us-west-2", use="processing")
    assert price is not None
    assert (price.use, price.kind) == ("processing", "derived")


def test_an_unknown_price_is_none() -> None:
    assert CATALOGUE.price("p5e.48xlarge") is None
    assert CATALOGUE.price("g5.xlarge", "mars-north-1") is None
    assert CATALOGUE.price("g99.xlarge") is None


# Offerings


def test_zones_are_named_by_id() -> None:
    (offering,) = CATALOGUE.offerings("ml.g5.xlarge", "us-east-1")
    assert "use1-az1" in offering.az_ids


def test_p3dn_is_left_in_four_regions() -> None:
    regions = [offering.region for offering in CATALOGUE.offerings("p3dn.24xlarge")]
    assert regions == ["ap-northeast-1", "eu-west-1", "us-east-1", "us-west-2"]


def test_an_unknown_type_or_region_is_offered_nowhere() -> None:
    assert CATALOGUE.offerings("g99.xlarge") == ()
    assert CATALOGUE.offerings("g5.xlarge", "mars-north-1") == ()
    assert CATALOGUE.region("mars-north-1") == {}


# Quotas


def test_an_ec2_quota_counts_vcpus() -> None:
    quota = CATALOGUE.quota("g5.xlarge", "us-west-2", instances=2)
    assert quota is not None
    assert (quota.code, quota.unit, quota.needed, quota.default) == ("L-DB2E81BA", "vCPU", 8, 0.0)
    assert quota.console_url == (
        "https://us-west-2.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-DB2E81BA"
    )
    assert "--desired-value 8 --region us-west-2" in quota.command


@pytest.mark.parametrize(
    ("name", "market", "code"),
    [
        ("p5.48xlarge", "on-demand", "L-417A185B"),
        ("p5.48xlarge", "spot", "L-C4BD4855"),
        ("p4d.24xlarge", "spot", "L-7212CCBC"),
        ("g7e.2xlarge", "spot", "L-3819A6DF"),
        ("m5.large", "on-demand", "L-1216C47A"),
        ("t3.micro", "spot", "L-34B43A08"),
    ],
)
def test_families_count_against_their_own_quota(name: str, market: str, code: str) -> None:
    quota = CATALOGUE.quota(name, market=market)
    assert quota is not None
    assert quota.code == code


def test_where_sources_disagree_about_a_code_there_is_none() -> None:
    quota = CATALOGUE.quota("p6-b200.48xlarge", market="spot")
    assert quota is not None
    assert quota.code is None
    assert "list-service-quotas" in quota.command


@pytest.mark.parametrize(
    ("use", "market", "name"),
    [
        ("training", "on-demand", "ml.g6.xlarge for training job usage"),
        ("training", "spot", "ml.g6.xlarge for spot training job usage"),
        ("training", "warm-pool", "ml.g6.xlarge for training warm pool usage"),
        ("endpoint", "on-demand", "ml.g6.xlarge for endpoint usage"),
        ("transform", "on-demand", "ml.g6.xlarge for transform job usage"),
        ("processing", "on-demand", "ml.g6.xlarge for processing job usage"),
        ("notebook", "on-demand", "ml.g6.xlarge for notebook instance usage"),
        ("studio", "on-demand", "Studio JupyterLab Apps running on ml.g6.xlarge instances"),
    ],
)
def test_sagemaker_has_a_quota_for_each_use(use: JobKind, market: str, name: str) -> None:
    quota = CATALOGUE.quota("ml.g6.xlarge", use=use, market=market, instances=3)
    assert quota is not None
    assert (quota.name, quota.unit, quota.needed) == (name, "instance", 3)


def test_a_code_that_is_known_for_one_type_is_not_used_for_another() -> None:
    known, other = CATALOGUE.quota("ml.g5.xlarge"), CATALOGUE.quota("ml.g7e.2xlarge")
    assert known is not None
    assert other is not None
    assert (known.code, other.code) == ("L-B6D80D9C", None)


def test_a_quota_of_a_gpu_can_be_requested_by_its_code() -> None:
    quota = CATALOGUE.quota("ml.g5.xlarge", "eu-west-1", "notebook")
    assert quota is not None
    assert quota.command == (
        "aws service-quotas request-service-quota-increase --service-code sagemaker --quota-code L-E8917BB7"
        " --desired-value 1 --region eu-west-1"
    )


def test_consoles_of_other_partitions_have_their_own_address() -> None:
    china, government = (
        CATALOGUE.quota("g4dn.xlarge", "cn-north-1"),
        CATALOGUE.quota("g4dn.xlarge", "us-gov-west-1"),
    )
    assert china is not None
    assert government is not None
    assert "console.amazonaws.cn/" in china.console_url
    assert "console.amazonaws-us-gov.com/" in government.console_url


def test_an_unknown_type_has_no_quota() -> None:
    assert CATALOGUE.quota("g99.xlarge") is None
    assert CATALOGUE.quota("p6e-gb200.36xlarge") is None


# Replacements


def test_a_single_v100_is_replaced_by_single_gpus_with_as_much_memory() -> None:
    found = CATALOGUE.replacements("ml.p3.2xlarge")
    assert [match.instance.name for match in found][:3] == ["ml.g4dn.xlarge", "ml.g6.xlarge", "ml.g5.xlarge"]
    assert all(match.instance.gpu_count == 1 and match.instance.gpu_memory >= 16 * 2**30 for match in found)
    assert "no BF16" in found[0].reason


def test_four_v100s_are_replaced_by_four_gpus_or_more() -> None:
    found = CATALOGUE.replacements("p3.8xlarge")
    assert "g5.12xlarge" in [match.instance.name for match in found]
    assert all(4 <= match.instance.gpu_count <= 8 for match in found)


def test_sixteen_k80s_are_replaced_by_eight_of_anything() -> None:
    assert {replacement.instance.gpu_count for replacement in CATALOGUE.replacements("p2.16xlarge")} == {8}


def test_a_type_without_a_gpu_gets_one_that_its_use_accepts() -> None:
    found = CATALOGUE.replacements("ml.t3.2xlarge", use="processing")
    assert found
    assert all("processing" in CATALOGUE.accepted_for(match.instance.name) for match in found)
    assert all(match.instance.gpu_count == 1 for match in found)


def test_a_replacement_is_offered_in_the_region_that_was_named() -> None:
    found = CATALOGUE.replacements("p3.2xlarge", region="eu-west-1")
    assert found
    assert all(CATALOGUE.offerings(match.instance.name, "eu-west-1") for match in found)


def test_a_replacement_is_never_a_slice_nor_another_architecture() -> None:
    found = CATALOGUE.replacements("t3.micro")
    assert all(match.instance.fraction == 1.0 and match.instance.arch == "x86_64" for match in found)


def test_an_unknown_type_has_no_replacement() -> None:
    assert CATALOGUE.replacements("ml.g99.xlarge") == ()


# Names of GPUs and builds


def test_a_gpu_is_known_by_the_name_that_its_driver_reports() -> None:
    for name, key in (
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
    ):
        gpu = CATALOGUE.gpu(name)
        assert gpu is not None
        assert gpu.name == key


def test_a_name_that_means_two_models_means_none() -> None:
    assert CATALOGUE.gpu("A100") is None
    assert CATALOGUE.gpu("A10") is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("torch==2.11", "torch 2.11"),
        ("torch==2.11.0+cu126", "torch 2.11+cu126"),
        ("torch==2.11.0+cu130", "torch 2.11"),
        ("pytorch 2.9", "torch 2.9"),
        ("tensorflow[and-cuda]==2.21.0", "tensorflow 2.21"),
        ("tf", "tensorflow 2.21"),
        ("torch==2.11.0rc1", "torch 2.11"),
        ("jax", "jax 0.12"),
    ],
)
def test_a_build_is_found_by_what_people_write(text: str, shown: str) -> None:
    build = CATALOGUE.build(text)
    assert build is not None
    assert str(build) == shown


@pytest.mark.parametrize("text", ["torch==9.9", "torch>=2", "numpy==1.0", "torch==2.11+cu999", "", "=="])
def test_an_unknown_build_is_none(text: str) -> None:
    assert CATALOGUE.build(text) is None


# What the APIs accept


def test_the_installed_botocore_determines_what_each_api_accepts() -> None:
    accepted = accepted_types()
    assert set(accepted) == {
        "training",
        "processing",
        "endpoint",
        "transform",
        "notebook",
        "studio",
        "cluster",
    }
    assert "ml.g5.xlarge" in accepted["training"]


def test_the_service_model_file_matches_boto3() -> None:
    import boto3

    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    assert accepted_types()["transform"] == frozenset(model.shape_for("TransformInstanceType").enum)


def test_the_service_model_is_found_without_importing_botocore() -> None:
    assert service_model() is not None


def test_where_no_model_is_found_nothing_is_refused(tmp_path: Path) -> None:
    catalogue = Catalogue(Tables(), accepted={})
    assert catalogue.instance("ml.g5.xlarge") is not None
    assert catalogue.accepted_for("ml.g5.xlarge") == ()


# Unknown names


@pytest.mark.parametrize(
    "name", ["", "ml.", "ml", ".", "x" * 1000, "ml.g5", "g5.", "G5.XLARGE", "g5.xlarge ", "ñ\x00\n"]
)
def test_no_query_raises_for_an_unknown_name(name: str) -> None:
    assert CATALOGUE.instance(name) is None
    assert CATALOGUE.gpu(name) is None
    assert CATALOGUE.price(name) is None
    assert CATALOGUE.price("g5.xlarge", name) is None
    assert CATALOGUE.offerings(name) == ()
    assert CATALOGUE.quota(name) is None
    assert CATALOGUE.replacements(name) == ()
    assert CATALOGUE.image(name, name, "training", name, name) is None
    assert CATALOGUE.amis(name) == ()
    assert CATALOGUE.driver_floor(name) is None
    assert CATALOGUE.build(name) is None
    assert CATALOGUE.accepted_for(name) == ()
    assert CATALOGUE.runs_on(name, name).kind == "unknown"


# Prices of every region, CPU types, Trainium and Inferentia


@pytest.mark.parametrize(
    ("name", "region", "use", "kind"),
    [
        ("g6e.xlarge", "ap-northeast-1", None, "observed"),
        ("ml.g6e.xlarge", "ap-northeast-1", "training", "derived"),
        ("m5.xlarge", "eu-west-3", None, "observed"),
        ("ml.m5.xlarge", "us-east-1", "training", "observed"),
        ("ml.c5.xlarge", "eu-north-1", "processing", "derived"),
        ("trn1.32xlarge", "us-east-1", None, "observed"),
        ("inf2.xlarge", "eu-west-1", None, "observed"),
        ("g4dn.xlarge", "us-gov-west-1", None, "observed"),
    ],
)
def test_prices_are_known_in_every_region_and_for_cpu_types_and_accelerators(
    name: str, region: str, use: JobKind | None, kind: str
) -> None:
    price = CATALOGUE.price(name, region, use)
    assert price is not None
    assert (price.kind, price.region, price.instance_type) == (kind, region, name)


def test_a_price_of_sagemaker_is_derived_from_ec2s_by_the_ratio_of_the_family() -> None:
    ec2, derived = CATALOGUE.price("g5.xlarge", "eu-west-2"), CATALOGUE.price("ml.g5.xlarge", "eu-west-2")
    assert ec2 is not None
    assert derived is not None
    assert derived.usd_per_hour == pytest.approx(1.4 * ec2.usd_per_hour, abs=1e-4)
    assert (derived.kind, derived.service, derived.as_of) == ("derived", "sagemaker", ec2.as_of)


def test_no_price_is_derived_for_a_use_that_aws_does_not_sell() -> None:
    assert CATALOGUE.price("ml.t3.medium", use="training") is None
    assert CATALOGUE.price("ml.t3.medium", use="notebook") is not None


def test_no_price_is_derived_where_the_ratio_is_unknown() -> None:
    assert CATALOGUE.price("ml.trn1.2xlarge") is None


def test_a_spot_price_that_is_only_a_bound_is_not_shown() -> None:
    assert CATALOGUE.price("p5.48xlarge", "ap-southeast-3", market="spot") is None


@pytest.mark.parametrize(
    ("as_of", "today", "old"),
    [
        ("2025-04-04", (2026, 4, 4), False),
        ("2025-04-04", (2026, 4, 5), True),
        ("2025-04", (2026, 4, 30), False),
        ("2025-04", (2026, 5, 1), True),
        ("2025", (2026, 12, 31), False),
        ("2025", (2027, 1, 1), True),
    ],
)
def test_a_price_is_old_once_it_is_certainly_older_than_a_year(
    as_of: str, today: tuple[int, int, int], old: bool
) -> None:
    price = CATALOGUE.price("g5.xlarge")
    assert price is not None
    assert is_old(price._replace(as_of=as_of), date(*today)) is old


# Hugging Face


def test_hugging_face_images_are_chosen_by_the_version_of_transformers() -> None:
    image = CATALOGUE.image("huggingface", "4.56", "training", "ml.g5.xlarge", "us-west-2")
    assert image is not None
    assert image.uri.startswith("763104351884.dkr.ecr.us-west-2.amazonaws.com/huggingface-pytorch-training:")
    assert image.uri.endswith(":2.8.0-transformers4.56.2-gpu-py312-cu129-ubuntu22.04")
    newest = CATALOGUE.image("huggingface", None, "endpoint", "ml.m5.xlarge", "us-west-2")
    assert newest is not None
    assert newest.row.library_version == "5.5.3"
    assert "-cpu-" in newest.uri


# Corrections


def test_the_sustained_network_rate_of_p6_is_that_of_all_cards() -> None:
    p6 = CATALOGUE.instance("p6-b200.48xlarge")
    assert p6 is not None
    assert p6.network_baseline_gbps == 3200


@pytest.mark.parametrize("name", ["trn1.32xlarge", "inf2.xlarge"])
def test_trainium_and_inferentia_have_their_own_quotas(name: str) -> None:
    quota = CATALOGUE.quota(name)
    assert quota is not None
    assert quota.name in ("Running On-Demand Trn instances", "Running On-Demand Inf instances")


# Alternatives to a type that is not available now


def test_a_type_without_a_gpu_has_similar_types_as_alternatives() -> None:
    found = CATALOGUE.alternatives("ml.c5.2xlarge", "training", "eu-west-1")
    assert found
    assert all(match.instance.gpu_count == 0 for match in found)
    assert all((match.instance.vcpus or 0) >= 8 for match in found)
    assert len({match.instance.family for match in found}) == len(found)


def test_a_type_with_a_gpu_has_types_with_gpus_as_alternatives() -> None:
    found = CATALOGUE.alternatives("ml.g5.xlarge", "training", "eu-west-1")
    assert found
    assert all(match.instance.gpu_count for match in found)
