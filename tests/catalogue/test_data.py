"""Every row of the shipped data keeps its invariants."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

import gpuproof.catalogue.tables as tables_module
from gpuproof.catalogue import JOB_KINDS, Price
from gpuproof.catalogue.sagemaker_api_types import accepted_types
from gpuproof.catalogue.tables import Tables
from gpuproof.gpu.compute_capability import parse_architecture

TABLES = Tables()
FILES = sorted(tables_module.SHIPPED.rglob("*.csv"))
KEYS = {
    "amis": ("name_pattern",),
    "builds": ("framework", "version", "variant", "arch"),
    "cuda_drivers": ("cuda", "update"),
    "gpus": ("gpu",),
    "grid_carbon": ("region",),
    "host_amis": ("service", "version", "driver"),
    "image_accounts": ("region",),
    "images": ("repository", "tag"),
    "instances": ("instance_type",),
    "offerings": ("instance_type", "region"),
    "other_types": ("instance_type",),
    "huggingface_images": ("repository", "tag"),
    "not_sold": ("service", "use", "instance_type", "region"),
    "prices": ("service", "use", "instance_type", "region", "market"),
    "quotas": ("service", "name"),
    "regions": ("region",),
    "sagemaker_ratios": ("family", "size"),
    "sources": ("source",),
    "storage_prices": ("service", "use", "volume_type", "unit", "above", "region"),
}
"""The key columns of each table."""

PRICES = [price for region in TABLES.priced_regions for price in TABLES.prices(region).rows.values()]


def table_of(path: Path) -> str:
    return path.parent.name if path.parent != tables_module.SHIPPED else path.stem


READ_ON = {source.source: source.read_on for source in TABLES.sources.values()}
"""When each source was read: no row of it can be newer. Today's date is not used, since a machine's clock may be wrong."""


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_table_has_a_key_and_no_row_twice(path: Path) -> None:
    found = Counter(tuple(row[column] for column in KEYS[table_of(path)]) for row in rows(path))
    assert [key for key, count in found.items() if count > 1] == []


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem != "sources"], ids=lambda path: path.stem
)
def test_every_row_names_a_known_source_and_a_date_not_after_it_was_read(path: Path) -> None:
    for row in rows(path):
        assert row["source"] in TABLES.sources, row
        assert re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", row["as_of"]), row
        assert row["as_of"] <= READ_ON[row["source"]], row


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_cell_has_surrounding_blanks_or_a_local_path(path: Path) -> None:
    for row in rows(path):
        for cell in row.values():
            assert cell == cell.strip(), row
            assert not re.search(r"/(work|root|home|mnt)/", cell), row


def test_every_source_is_used_and_states_what_was_read() -> None:
    used = {row["source"] for path in FILES if path.stem != "sources" for row in rows(path)} | {"aws-api"}
    assert set(TABLES.sources) == used
    for source in TABLES.sources.values():
        assert source.what
        assert source.confidence in ("high", "medium", "low")


def test_every_gpu_has_rates_and_ranges_that_can_be() -> None:
    for gpu in TABLES.gpus.values():
        assert 1 <= gpu.memory_gb <= 512, gpu
        assert 50 <= gpu.bandwidth <= 10_000, gpu
        assert 0 <= gpu.nvlink <= 2_000, gpu
        assert gpu.confidence in ("high", "medium", "low"), gpu
        assert gpu.kernel_module in ("open", "proprietary", "either", "amdgpu"), gpu
        assert (gpu.vendor == "NVIDIA") == (gpu.compute_capability is not None), gpu
        rates = [
            gpu.fp32_tflops,
            gpu.tf32_tflops,
            gpu.fp16_tflops,
            gpu.bf16_tflops,
            gpu.fp8_tflops,
            gpu.fp4_tflops,
        ]
        assert all(0 < rate < 20_000 for rate in rates if rate is not None), gpu
        tensor = [rate for rate in rates[1:] if rate is not None]
        assert tensor == sorted(tensor), f"{gpu.name}: a narrower type is slower"
        if gpu.compute_capability:
            major, minor = gpu.compute_capability
            assert 3 <= major <= 12
            assert 0 <= minor <= 9
            # TF32 and BF16 came with Ampere, FP8 with Ada and Hopper, FP4 with Blackwell.
            assert (gpu.bf16_tflops is not None) == (major >= 8), gpu
            assert (gpu.fp8_tflops is not None) == ((major, minor) >= (8, 9)), gpu
            assert (gpu.fp4_tflops is not None) == (major >= 10), gpu
            assert (gpu.kernel_module == "open") == (major >= 10), gpu
            assert (gpu.kernel_module == "proprietary") == ((major, minor) < (7, 5)), gpu
            assert gpu.driver_first is not None
            assert gpu.driver_last is None or gpu.driver_first < gpu.driver_last, gpu


def test_every_instance_has_a_known_gpu_and_sizes_that_can_be() -> None:
    for gpu_instance in TABLES.gpu_instances.values():
        gpu = TABLES.gpus.get(gpu_instance.gpu_model or "")
        assert gpu is not None, gpu_instance
        assert gpu_instance.gpu_count in (1, 2, 4, 8, 16), gpu_instance
        assert gpu_instance.fraction in (0.125, 0.25, 0.5, 1.0), gpu_instance
        assert gpu_instance.arch in ("x86_64", "arm64"), gpu_instance
        assert gpu_instance.efa_interfaces >= 0
        assert gpu_instance.local_disk >= 0
        if gpu_instance.status == "capacity-block":
            continue
        assert gpu_instance.vcpus in range(2, 257), gpu_instance
        assert gpu_instance.memory is not None
        assert 2**32 <= gpu_instance.memory <= 2**43, gpu_instance
        # What EC2 reports is the datasheet's figure in GB or GiB, or a slice of it.
        share = gpu_instance.gpu_memory / (gpu.memory_gb * 10**9) / gpu_instance.fraction
        assert 0.95 <= share <= 1.10, gpu_instance
        assert gpu_instance.network_gbps is None or 1 <= gpu_instance.network_gbps <= 6400, gpu_instance
        if gpu_instance.network_gbps and gpu_instance.network_baseline_gbps:
            assert gpu_instance.network_baseline_gbps <= gpu_instance.network_gbps, gpu_instance


def test_a_fraction_is_seen_as_one_gpu_and_only_on_g6f_and_gr6f() -> None:
    fractional = {
        gpu_instance.family for gpu_instance in TABLES.gpu_instances.values() if gpu_instance.fraction < 1
    }
    assert fractional == {"g6f", "gr6f"}
    assert all(
        gpu_instance.gpu_count == 1
        for gpu_instance in TABLES.gpu_instances.values()
        if gpu_instance.fraction < 1
    )


def test_a_retired_type_has_a_date_and_no_offerings() -> None:
    for gpu_instance in TABLES.gpu_instances.values():
        retired = gpu_instance.status == "retired"
        assert bool(gpu_instance.last_seen and gpu_instance.gone_by) == retired, gpu_instance
        if retired:
            assert (gpu_instance.last_seen or "") < (gpu_instance.gone_by or ""), gpu_instance
            assert all(gpu_instance.name not in region for region in TABLES.offerings.values()), gpu_instance


def test_every_offered_type_is_offered_somewhere() -> None:
    everywhere = {name for region in TABLES.offerings.values() for name in region}
    offered = {
        gpu_instance.name
        for gpu_instance in TABLES.gpu_instances.values()
        if gpu_instance.status in ("offered", "legacy")
    }
    assert everywhere == offered


def test_every_offering_names_zones_by_id() -> None:
    for region, types in TABLES.offerings.items():
        assert re.fullmatch(r"[a-z]{2}(-gov)?-[a-z]+-\d", region)
        for offering in types.values():
            assert offering.az_ids
            assert len(set(offering.az_ids)) == len(offering.az_ids)
            assert all(re.fullmatch(r"[a-z]{3,5}\d-az\d", zone) for zone in offering.az_ids), offering


def test_no_type_is_in_both_tables_of_types() -> None:
    others = {row["instance_type"] for row in rows(tables_module.SHIPPED / "other_types.csv")}
    assert others & set(TABLES.gpu_instances) == set()


def test_every_other_type_is_legible() -> None:
    for row in rows(tables_module.SHIPPED / "other_types.csv"):
        instance = TABLES.other_instance(row["instance_type"])
        assert instance is not None
        assert (instance.gpu_count, instance.gpu_memory, instance.gpu_model) == (0, 0, None)
        assert instance.vcpus in range(1, 2000)
        assert instance.memory in range(2**28, 2**46)


def on_demand_on_ec2(ec2_type: str, region: str) -> Price | None:
    return TABLES.prices(region).rows.get(("ec2", "compute", ec2_type, "on-demand"))


def test_every_price_is_in_the_file_of_its_region() -> None:
    for region in TABLES.priced_regions:
        assert {row["region"] for row in rows(tables_module.SHIPPED / "prices" / f"{region}.csv")} == {region}


def test_every_price_is_of_a_known_type_in_a_known_use_and_within_reason() -> None:
    known_regions = set(TABLES.regions)
    for price in PRICES:
        name = price.instance_type.removeprefix("ml.")
        assert name in TABLES.gpu_instances or TABLES.other_instance(name), price
        assert price.instance_type.startswith("ml.") == (price.service == "sagemaker"), price
        uses = ("compute",) if price.service == "ec2" else ("any", *JOB_KINDS)
        assert price.use in uses, price
        assert price.market in ("on-demand", "spot"), price
        assert price.kind in ("observed", "derived"), price
        assert price.region in known_regions, price
        assert 0.02 <= price.usd_per_hour <= 250, price
        assert price.usd_per_hour_max is None or price.usd_per_hour_max >= price.usd_per_hour, price


def test_a_derived_price_comes_from_a_derivation_and_an_observed_one_does_not() -> None:
    for price in PRICES:
        assert price.source.startswith("derived-") == (price.kind == "derived"), price


def test_spot_costs_less_than_on_demand() -> None:
    for price in PRICES:
        on_demand = on_demand_on_ec2(price.instance_type, price.region)
        if price.market == "spot" and on_demand:
            assert price.usd_per_hour < on_demand.usd_per_hour, price


def test_sagemaker_costs_between_equal_and_half_as_much_again_as_ec2() -> None:
    for price in PRICES:
        ec2_type = price.instance_type.removeprefix("ml.")
        ec2 = on_demand_on_ec2(ec2_type, price.region)
        if price.service == "sagemaker" and ec2:
            assert 1.0 <= price.usd_per_hour / ec2.usd_per_hour <= 1.5, price


def test_a_ratio_is_what_was_observed_and_of_a_family_that_sagemaker_has() -> None:
    families = {name.split(".")[1] for types in accepted_types().values() for name in types if "." in name}
    for ratio in TABLES.sagemaker_ratios.values():
        assert ratio.family in families, ratio
        assert 1.0 < ratio.ratio <= 1.4, ratio
        assert (ratio.observations > 0) == (ratio.lowest is not None) == (ratio.confidence == "medium"), ratio
        if ratio.lowest and ratio.highest:
            assert ratio.lowest - 0.005 <= ratio.ratio <= ratio.highest + 0.005, ratio


def test_every_observed_price_of_sagemaker_agrees_with_the_ratio_of_its_family() -> None:
    for price in PRICES:
        ec2_type = price.instance_type.removeprefix("ml.")
        ec2 = on_demand_on_ec2(ec2_type, price.region)
        family, _, size = ec2_type.partition(".")
        ratio = TABLES.sagemaker_ratios.get((family, size)) or TABLES.sagemaker_ratios.get((family, ""))
        if price.service == "sagemaker" and ec2 and ratio:
            assert price.usd_per_hour == pytest.approx(ec2.usd_per_hour * ratio.ratio, rel=0.01), price


def test_what_is_not_sold_has_no_price() -> None:
    for row in rows(tables_module.SHIPPED / "not_sold.csv"):
        key = (row["service"], row["use"], row["instance_type"], "on-demand")
        assert key not in TABLES.prices(row["region"]).rows, row


STORAGE = [tier for tiers in TABLES.storage_prices.values() for tier in tiers]


def gb_price(volume_type: str, region: str) -> float:
    return TABLES.storage_prices["ec2", "volume", volume_type, "gb", region][0].usd_per_month


def test_every_storage_price_is_of_a_known_kind_and_within_reason() -> None:
    ranges = {"gb": (0.01, 0.3), "iops": (0.003, 0.15), "mibps": (0.03, 0.1)}
    for price in STORAGE:
        lowest, highest = ranges[price.unit]
        assert lowest <= price.usd_per_month <= highest, price
        assert price.region in TABLES.regions, price
        assert price.kind == "observed", price
        assert price.confidence in ("high", "medium", "low"), price
        assert (price.use == "volume") == (price.service == "ec2"), price
        assert (price.volume_type == "ssd") == (price.service == "sagemaker"), price


def test_the_prices_of_volumes_have_the_same_ratios_in_all_regions() -> None:
    """A typing error in one of them would show."""
    for region in {price.region for price in STORAGE if price.service == "ec2"}:
        gp2 = gb_price("gp2", region)
        assert gb_price("gp3", region) == pytest.approx(0.8 * gp2, rel=0.003), region
        assert gb_price("io1", region) == gb_price("io2", region), region
        assert gb_price("io1", region) == pytest.approx(1.2 * gp2, rel=0.09), region
        assert gb_price("st1", region) == pytest.approx(0.45 * gp2, rel=0.02), region
        assert gb_price("sc1", region) == pytest.approx(gb_price("st1", region) / 3, rel=0.03), region
        assert 0.49 <= gb_price("standard", region) / gp2 <= 0.71, region


def test_the_storage_of_sagemaker_costs_as_many_times_gp2_everywhere() -> None:
    for price in STORAGE:
        if price.service == "sagemaker":
            assert price.usd_per_month == pytest.approx(1.4 * gb_price("gp2", price.region), rel=1e-6), price


def test_every_build_has_valid_architectures_or_is_marked_unread() -> None:
    for build in TABLES.builds:
        assert build.framework in ("tensorflow", "torch", "jax"), build
        assert re.fullmatch(r"\d+\.\d+", build.version), build
        assert build.arch in ("x86_64", "arm64"), build
        assert build.evidence in ("read", "inferred", "unread"), build
        assert all(parse_architecture(name) for name in build.architectures), build
        if build.device == "cpu":
            assert (build.cuda, build.architectures) == ("", ()), build
        else:
            assert bool(build.architectures) == (build.evidence != "unread"), build
            assert any(row.cuda == build.cuda for row in TABLES.cuda_drivers), build


def test_newer_toolkits_never_want_older_drivers() -> None:
    drivers = [tuple(map(int, row.driver.split("."))) for row in TABLES.cuda_drivers]
    assert drivers == sorted(drivers, reverse=True)
    for row in TABLES.cuda_drivers:
        assert tuple(map(int, row.minimum_driver.split("."))) <= tuple(map(int, row.driver.split("."))), row


def test_every_image_is_of_a_known_kind_with_a_tag_that_can_be() -> None:
    for image in (*TABLES.images, *TABLES.huggingface_images):
        assert image.framework in ("torch", "tensorflow", "base"), image
        assert image.job in ("training", "inference", "base"), image
        assert image.device in ("cpu", "gpu", *(("neuron", "neuronx") if image.library else ())), image
        assert image.platform in ("sagemaker", "ec2"), image
        assert image.status in (("",) if image.library else ("patched", "ended")), image
        assert image.evidence in ("listed", "derived"), image
        assert re.fullmatch(r"[\w][\w.-]{0,127}", image.tag), image
        assert image.status != "patched" or image.patched_until >= image.as_of, image
        assert image.device == "gpu" or not image.cuda, image
        if image.cuda:
            assert any(row.cuda == image.cuda for row in TABLES.cuda_drivers), image


def test_every_account_has_twelve_digits() -> None:
    assert all(re.fullmatch(r"\d{12}", registry.account) for registry in TABLES.registries.values())


def test_every_ami_names_families_that_exist_and_a_parameter_that_can_be() -> None:
    families = {gpu_instance.family for gpu_instance in TABLES.gpu_instances.values()}
    for ami in TABLES.amis:
        assert set(ami.families) <= families, ami
        assert ami.kernel_module in ("open", "proprietary"), ami
        assert not ami.ssm_parameter or re.fullmatch(r"/aws/service/[\w./-]+/ami-id", ami.ssm_parameter), ami
        assert bool(ami.ssm_parameter) == bool(ami.ssm_evidence), ami
        assert not ami.ssm_parameter or f"/{ami.arch}/" in ami.ssm_parameter, ami


def test_every_quota_is_of_a_known_unit_use_and_code() -> None:
    for quota in TABLES.quotas:
        assert quota.unit == ("vCPU" if quota.service == "ec2" else "instance"), quota
        assert quota.market in ("on-demand", "spot", "warm-pool"), quota
        assert (quota.use == "") == (quota.service == "ec2"), quota
        assert quota.use in ("", *JOB_KINDS), quota
        assert not quota.code or re.fullmatch(r"L-[0-9A-F]{8}", quota.code), quota


def test_every_code_of_a_quota_is_its_own() -> None:
    codes = Counter((quota.service, quota.code) for quota in TABLES.quotas if quota.code)
    assert [code for code, count in codes.items() if count > 1] == []
    for quota in TABLES.quotas:
        if quota.instance_type:
            assert quota.instance_type in quota.name.split(), quota


def test_every_family_with_gpus_has_its_vcpu_quotas() -> None:
    for market in ("on-demand", "spot"):
        counted = {family for row in TABLES.quotas if row.market == market for family in row.families}
        families = {
            gpu_instance.family
            for gpu_instance in TABLES.gpu_instances.values()
            if gpu_instance.status != "capacity-block"
        }
        assert families <= counted
