"""One function per table that converts a CSV row into a typed row. Empty cells mean unknown or none, see the model."""

from typing import Any, cast

from gpuproof.catalogue import model
from gpuproof.catalogue.regions import Region

Row = dict[str, str]

MIB = 1024**2


def gpu_instance(row: Row) -> model.Instance:
    return model.Instance(
        name=row["instance_type"],
        ec2_type=row["instance_type"],
        status=cast("model.Status", row["status"]),
        gpu_model=row["gpu"],
        gpu_count=int(row["gpu_count"]),
        fraction=float(row["gpu_fraction"]),
        gpu_memory=int(row["gpu_memory_mib"] or 0) * MIB,
        accelerator="gpu",
        vcpus=_int(row["vcpus"]),
        memory=_mib(row["memory_mib"]),
        arch=row["arch"],
        network=row["network"],
        network_gbps=_float(row["network_gbps"]),
        network_baseline_gbps=_float(row["network_baseline_gbps"]),
        efa_interfaces=int(row["efa_interfaces"] or 0),
        local_disk=int(row["local_disk_gb"] or 0) * 10**9,
        usage=tuple(row["usage"].split()),
        retires_on=row["retires_on"] or None,
        last_seen=row["last_seen"] or None,
        gone_by=row["gone_by"] or None,
        note=row["note"],
        source=row["source"],
        as_of=row["as_of"],
    )


def other_instance(row: Row) -> model.Instance:
    return model.Instance(
        name=row["instance_type"],
        ec2_type=row["instance_type"],
        status=cast("model.Status", row["status"]),
        gpu_model=None,
        gpu_count=0,
        fraction=1.0,
        gpu_memory=0,
        accelerator=row["accelerator"],
        vcpus=int(row["vcpus"]),
        memory=int(row["memory_mib"]) * MIB,
        arch=row["arch"],
        network="",
        network_gbps=None,
        network_baseline_gbps=None,
        efa_interfaces=0,
        local_disk=0,
        usage=("on-demand", "spot"),
        retires_on=None,
        last_seen=None,
        gone_by=None,
        note="",
        source=row["source"],
        as_of=row["as_of"],
    )


def gpu(row: Row) -> model.Gpu:
    major, _, minor = row["compute_capability"].partition(".")
    return model.Gpu(
        name=row["gpu"],
        aliases=tuple(row["aliases"].split("|")),
        vendor=row["vendor"],
        architecture=row["architecture"],
        compute_capability=(int(major), int(minor)) if major else None,
        memory_gb=int(row["memory_gb"]),
        memory_type=row["memory_type"],
        bandwidth=float(row["bandwidth_gb_s"]),
        fp32_tflops=_float(row["fp32_tflops"]),
        tf32_tflops=_float(row["tf32_tflops"]),
        fp16_tflops=_float(row["fp16_tflops"]),
        bf16_tflops=_float(row["bf16_tflops"]),
        fp8_tflops=_float(row["fp8_tflops"]),
        fp4_tflops=_float(row["fp4_tflops"]),
        nvlink=float(row["nvlink_gb_s"]),
        cuda_first=row["cuda_first"] or None,
        cuda_last=row["cuda_last"] or None,
        driver_first=_int(row["driver_first"]),
        driver_last=_int(row["driver_last"]),
        kernel_module=row["kernel_module"],
        note=row["note"],
        confidence=row["confidence"],
        source=row["source"],
        as_of=row["as_of"],
    )


def offering(row: Row) -> model.Offering:
    return model.Offering(
        row["instance_type"], row["region"], tuple(row["az_ids"].split()), row["source"], row["as_of"]
    )


def price(row: Row) -> model.Price:
    return model.Price(
        service=row["service"],
        use=row["use"],
        instance_type=row["instance_type"],
        region=row["region"],
        market=row["market"],
        usd_per_hour=float(row["usd_per_hour"]),
        usd_per_hour_max=_float(row["usd_per_hour_max"]),
        kind=row["kind"],
        confidence=row["confidence"],
        source=row["source"],
        as_of=row["as_of"],
    )


def region(row: Row) -> Region:
    return Region(**_with(row, latitude=float(row["latitude"]), longitude=float(row["longitude"])))


def grid_carbon(row: Row) -> model.GridCarbon:
    return model.GridCarbon(**_with(row, g_per_kwh=float(row["g_per_kwh"]), year=int(row["year"])))


def sagemaker_ratio(row: Row) -> model.SageMakerRatio:
    return model.SageMakerRatio(
        **_with(
            row,
            ratio=float(row["ratio"]),
            lowest=_float(row["lowest"]),
            highest=_float(row["highest"]),
            observations=int(row["observations"]),
        )
    )


def build(row: Row) -> model.Build:
    return model.Build(**_with(row, architectures=tuple(row["architectures"].split())))


def cuda_driver(row: Row) -> model.CudaDriver:
    return model.CudaDriver(**_with(row, update=int(row["update"])))


def image(row: Row) -> model.ImageRow:
    return model.ImageRow(**row)


def registry(row: Row) -> model.Registry:
    return model.Registry(**row)


def ami(row: Row) -> model.Ami:
    versions, families = row["cuda_versions"].split(), row["families"].split()
    return model.Ami(**_with(row, cuda_versions=tuple(versions), families=tuple(families)))


def host_ami(row: Row) -> model.HostAmi:
    families = tuple(row["default_for"].split())
    mounted = row["cuda_compat_mounted"] == "yes"
    return model.HostAmi(
        **_with(row, driver=int(row["driver"]), cuda_compat_mounted=mounted, default_for=families)
    )


def quota(row: Row) -> model.QuotaRow:
    families = tuple(row["families"].split())
    return model.QuotaRow(**_with(row, families=families, default=_float(row["default"])))


def quota_limit(row: Row) -> model.QuotaLimit:
    return model.QuotaLimit(**_with(row, value=float(row["value"])))


def source(row: Row) -> model.Source:
    return model.Source(**row)


def _with(row: Row, **typed: object) -> dict[str, Any]:
    return {**row, **typed}


def _int(text: str) -> int | None:
    return int(text) if text else None


def _float(text: str) -> float | None:
    return float(text) if text else None


def _mib(text: str) -> int | None:
    return int(text) * MIB if text else None
