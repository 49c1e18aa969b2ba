"""Notebook instances and EC2 instances with GPUs. AWS publishes no utilization of their GPUs, unless the CloudWatch agent runs on EC2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.account.audit.hardware import gpu_name, gpus_of, may_have_gpu
from gpuproof.account.audit.workload import Metric, Source, Workload
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import Fleet, Kind
from gpuproof.backends.aws.services.ec2 import tag_dict

AGENT = "CWAgent"
"""The namespace of the CloudWatch agent, unless its configuration names another."""

AGENT_GPU, AGENT_MEMORY = "nvidia_smi_utilization_gpu", "nvidia_smi_memory_used"
"""Percent, and MB, of each GPU, with its NVML index as a dimension.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Agent-NVIDIA-GPU.html
"""

MEASURE_EC2 = (
    "EC2 publishes no utilization of GPUs. Run the CloudWatch agent with the section nvidia_gpu (utilization_gpu, memory_used) and "
    "append_dimensions InstanceId, or `gpuproof watch --for 60s` on the instance."
)
MEASURE_NOTEBOOK = (
    "SageMaker publishes no utilization of notebook instances. `%load_ext gpuproof` and `%gpu watch on` in a notebook measure each cell, "
    "and `gpuproof watch --for 60s` in its terminal the instance."
)

_MB = 1024**2
_STATES = ("pending", "running", "stopping", "stopped", "shutting-down", "terminated")
_BILLED = ("running", "stopping")


def collect_notebooks(region: Region, since: float) -> list[Workload]:
    """Notebook instances in service: AWS keeps no record of when a stopped one ran."""
    listed = region.read(
        "notebook instances", "sagemaker", lambda: list(region.aws.list_notebooks(status="InService"))
    )
    return [
        notebook_workload(region, notebook, since)
        for notebook in listed or ()
        if may_have_gpu(region.catalogue, (Fleet(notebook["InstanceType"], 1),))
    ]


def notebook_workload(region: Region, notebook: Mapping[str, Any], since: float) -> Workload:
    """A notebook instance in service; its last change is its start (see `account.cost.collect.notebook_entry`)."""
    fleets = (Fleet(notebook["InstanceType"], 1),)
    started = notebook.get("LastModifiedTime", notebook["CreationTime"]).timestamp()
    start = max(started, since)
    seconds = max(0.0, region.now - start)
    cost = region.cost(fleets, "notebook")
    return Workload(
        kind=Kind.NOTEBOOK,
        region=region.name,
        name=notebook["NotebookInstanceName"],
        arn=notebook["NotebookInstanceArn"],
        status=notebook["NotebookInstanceStatus"],
        fleets=fleets,
        gpus=gpus_of(region.catalogue, fleets),
        gpu_name=gpu_name(region.catalogue, fleets),
        created=notebook["CreationTime"].timestamp(),
        start=start,
        active_seconds=seconds,
        billed_seconds=seconds,
        usd_per_hour=None if cost is None else cost.usd,
        is_estimate=True,
        is_running=True,
        unmeasured=MEASURE_NOTEBOOK,
        notes=("since its last start",),
    )


def collect_instances(region: Region, since: float) -> list[Workload]:
    """EC2 instances with GPUs, with the metrics of the CloudWatch agent where it runs.

    EC2 describes terminated instances for about an hour; ListMetrics has metrics for two weeks after their last value, so that terminated
    instances are known where the agent ran.

    Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/terminating-instances.html,
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_ListMetrics.html
    """
    listed = region.read("EC2 instances", "ec2", lambda: list(region.aws.all_instances(_STATES)))
    found = [
        instance
        for instance in listed or ()
        if may_have_gpu(region.catalogue, (Fleet(instance["InstanceType"], 1),))
    ]
    published = (
        region.read(
            "utilization of EC2 instances",
            "cloudwatch",
            lambda: list(region.aws.published_dimensions(AGENT, AGENT_GPU)),
        )
        or ()
    )
    known = {instance["InstanceId"] for instance in listed or ()}
    gone = {dimensions["InstanceId"] for dimensions in published if "InstanceId" in dimensions} - known
    return [
        *(instance_workload(region, instance, published, since) for instance in found),
        *(terminated_workload(region, name, published, since) for name in sorted(gone) if listed is not None),
    ]


def instance_workload(
    region: Region, instance: Mapping[str, Any], published: Sequence[Mapping[str, str]], since: float
) -> Workload:
    """An EC2 instance.

    Args:
        published: the dimensions of the agent's metrics in the region.
        since: count from here, in seconds since the epoch.
    """
    identifier, state = instance["InstanceId"], instance["State"]["Name"]
    fleets = (Fleet(instance["InstanceType"], 1),)
    is_running, is_spot = state in _BILLED, instance.get("InstanceLifecycle") == "spot"
    launched = instance["LaunchTime"].timestamp()
    start = max(launched, since) if is_running else since
    seconds = max(0.0, region.now - start) if is_running else None
    cost = region.cost(fleets, market="spot" if is_spot else "on-demand")
    known = region.catalogue.instance(instance["InstanceType"])
    host = instance.get("PrivateDnsName") or ""
    sources = _agent_sources(identifier, host, published, known.gpu_memory if known else 0)
    cores = (known.vcpus if known else None) or 1
    dimensions = (("InstanceId", identifier),)
    return Workload(
        kind=Kind.INSTANCE,
        region=region.name,
        name=identifier,
        status=state,
        fleets=fleets,
        gpus=gpus_of(region.catalogue, fleets),
        gpu_name=gpu_name(region.catalogue, fleets),
        created=launched,
        start=start,
        end=None if is_running else region.now,
        active_seconds=seconds,
        billed_seconds=seconds,
        usd_per_hour=None if cost is None else cost.usd,
        is_estimate=is_spot or bool(cost and cost.derived) or not is_running,
        is_spot=is_spot,
        is_running=is_running,
        tags=tag_dict(instance.get("Tags", ())),
        role=str(instance.get("IamInstanceProfile", {}).get("Arn", "")).rpartition("/")[2],
        sources=sources,
        uptime=Metric("AWS/EC2", "CPUUtilization", dimensions, scale=float(cores)),
        unmeasured="" if sources else MEASURE_EC2,
        notes=() if is_running else (f"it is {state}; the time is that for which EC2 has values of its CPU",),
    )


def terminated_workload(
    region: Region, identifier: str, published: Sequence[Mapping[str, str]], since: float
) -> Workload:
    """An instance that only CloudWatch knows; its type is known if the agent adds it as a dimension.

    Args:
        published: the dimensions of the agent's metrics in the region.
        since: count from here, in seconds since the epoch.
    """
    dimensions = next(each for each in published if each.get("InstanceId") == identifier)
    named = dimensions.get("InstanceType")
    fleets = (Fleet(named, 1),) if named else ()
    known = region.catalogue.instance(named) if named else None
    cost = region.cost(fleets) if fleets else None
    return Workload(
        kind=Kind.INSTANCE,
        region=region.name,
        name=identifier,
        status="terminated",
        fleets=fleets,
        gpus=gpus_of(region.catalogue, fleets),
        gpu_name=gpu_name(region.catalogue, fleets) or dimensions.get("name"),
        start=since,
        end=region.now,
        usd_per_hour=None if cost is None else cost.usd,
        is_estimate=True,
        tags={},
        sources=_agent_sources(identifier, "", published, known.gpu_memory if known else 0),
        uptime=Metric("AWS/EC2", "CPUUtilization", (("InstanceId", identifier),)),
        notes=("it was terminated; the time is that for which EC2 has values of its CPU",),
    )


def _agent_sources(
    identifier: str, host: str, published: Sequence[Mapping[str, str]], memory: int
) -> tuple[Source, ...]:
    """A source for each GPU.

    Args:
        host: the private name of the instance, which the agent publishes if it does not add the instance's id.
        memory: bytes of each GPU; 0 if unknown.
    """
    names = {host, host.partition(".")[0]} - {""}
    found: dict[str, Mapping[str, str]] = {}
    for dimensions in published:
        if dimensions.get("InstanceId") == identifier or (
            "InstanceId" not in dimensions and dimensions.get("host") in names
        ):
            found[dimensions.get("index", "0")] = dimensions
    return tuple(
        Source(
            f"gpu {index}",
            1,
            Metric(AGENT, AGENT_GPU, tuple(sorted(dimensions.items()))),
            Metric(AGENT, AGENT_MEMORY, tuple(sorted(dimensions.items())), scale=100 * _MB / memory)
            if memory
            else None,
        )
        for index, dimensions in sorted(found.items())
    )
