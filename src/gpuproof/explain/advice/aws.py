"""Advice about AWS quotas, capacity, instance types and images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from gpuproof.catalogue import JOB_KINDS, JobKind
from gpuproof.catalogue.builds import FRAMEWORKS
from gpuproof.catalogue.host_drivers import default_host, named_hosts
from gpuproof.catalogue.images import JOBS
from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Advice, AdviceFunction
from gpuproof.explain.patterns import data_table
from gpuproof.gpu.cuda_compat import FOLDER as COMPAT_FOLDER
from gpuproof.util.versions import version_key

_QUOTA = re.compile(
    r"(?P<type>ml\.[\w.-]+) for (?:(?P<market>spot|training warm pool) ?)?(?:(?P<use>\w+)(?: job| instance)? )?usage"
)
_STUDIO = re.compile(r"Studio .* (?:on|running on) (?P<type>ml\.[\w.-]+) instance")
_MAX_TYPES = 3
_NOT_STARTED = "container-cuda-requirement"
"""The container did not start, so that no library in it helps."""


def sagemaker_quota(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Name and code of the SageMaker quota, and the command that requests an increase."""
    name, kind, market = _parse_quota_name(groups.get("quota", ""))
    if name is None:
        return None
    needed = int(groups.get("used", 0)) + int(groups.get("delta", 1))
    quota = context.catalogue.quota(name, context.region, kind, market, needed)
    if quota is None:
        return None
    code = f" ({quota.code})" if quota.code else ""
    return Advice(
        f"Quota: '{quota.name}'{code} in {context.region}.{_retired(context, name, kind)}",
        f"{quota.command}\n{quota.console_url}",
        instead=True,
    )


def ec2_quota(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The vCPU quota of the instance type."""
    return _ec2_quota(groups, context, "on-demand")


def ec2_spot_quota(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The vCPU quota of the instance type on the spot market."""
    return _ec2_quota(groups, context, "spot")


def other_types(_: Mapping[str, str], context: Context) -> Advice | None:
    """Alternatives to a type without capacity."""
    if context.instance_type is None:
        return None
    instead = _instead(context, context.instance_type, context.job_kind)
    return Advice(
        f"Requested type: {context.instance_type} in {context.region}.{_retired(context, context.instance_type, context.job_kind)}",
        f"Alternatives: {instead}." if instead else "",
    )


def accepted_for(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The kinds of job that accept the type, and alternatives."""
    name = groups.get("type") or groups.get("type2") or ""
    if context.catalogue.instance(name) is None:
        return Advice(f"The catalogue has no instance type {name}." if name else "")
    kinds = context.catalogue.accepted_for(name)
    use = _use_of(groups.get("member", "")) or context.job_kind
    here = f"SageMaker accepts {name} for {', '.join(kinds) or 'nothing'}" + (
        f", not for {use}." if use else "."
    )
    instead = _instead(context, name, use)
    return Advice(here, f"Use {instead}." if instead else "")


def other_zones(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Other zones and regions that offer the type."""
    name = groups.get("type") or context.instance_type
    if name is None:
        return None
    region = re.sub(r"(\d)[a-z]$", r"\1", groups.get("zone", "")) or context.region
    zones = [zone for offer in context.catalogue.offerings(name, region) for zone in offer.az_ids]
    elsewhere = [offer.region for offer in context.catalogue.offerings(name) if offer.region != region]
    here = (
        f"{name} is offered in {', '.join(zones)} in {region}."
        if zones
        else f"No zone in {region} is known to offer {name}."
    )
    more = (
        f"Other regions: {', '.join(elsewhere[:6])}{' …' if len(elsewhere) > 6 else ''}. "
        if elsewhere
        else ""
    )
    instead = _instead(context, name, None)
    return Advice(here, f"{more}Other types: {instead}." if instead else more.strip())


def image(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The URI of an AWS image that fits."""
    given = next((groups[name] for name in ("image", "image2", "ecr", "repository") if groups.get(name)), "")
    framework = re.search(r"(pytorch|tensorflow)-(training|inference)(?::(\d+\.\d+))?", given)
    if framework is None or context.instance_type is None:
        return None
    use: JobKind = "training" if framework[2] == "training" else "endpoint"
    for version in (framework[3], None):
        found = context.catalogue.image(framework[1], version, use, context.instance_type, context.region)
        if found is not None:
            return Advice(remedy=f"Existing image: {found.uri}")
    return None


def image_versions(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The framework versions that have an image."""
    name = FRAMEWORKS.get(groups.get("framework", "").lower())
    job = JOBS.get(context.job_kind or "training")
    versions = {
        row.version for row in context.catalogue.tables.images if (row.framework, row.job) == (name, job)
    }
    if not versions:
        return None
    short = sorted({".".join(version.split(".")[:2]) for version in versions}, key=version_key)
    return Advice(f"{name} versions with a {job} image: {', '.join(short)}.")


def endpoint_driver(_: Mapping[str, str], context: Context) -> Advice | None:
    """The driver versions of endpoint hosts."""
    hosts = named_hosts(context.catalogue.tables.host_amis, "endpoint")
    if not hosts or not context.gpus:
        return None
    drivers = ", ".join(sorted({f"{host.driver} (CUDA {host.cuda})" for host in hosts}))
    return Advice(
        f"Hosts of GPU endpoints have driver {drivers}, depending on InferenceAmiVersion; the newest is {hosts[-1].version}."
    )


def hosting_driver(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The `InferenceAmiVersion` with a driver that is new enough."""
    if not (context.instance_type or "ml.").startswith("ml.") or context.job_kind not in (None, "endpoint"):
        return None
    rows = context.catalogue.tables.host_amis
    instance = context.catalogue.instance(context.instance_type or "")
    default = default_host(rows, "endpoint", instance.family) if instance else None
    needed = version_key(groups.get("needed_driver", "0"))[0]
    newer = default.driver + 1 if default else 0
    cuda = version_key(groups.get("needed", "0"))
    fitting = [
        host
        for host in named_hosts(rows, "endpoint")
        if host.driver >= max(needed, newer) and version_key(host.cuda) >= cuda
    ]
    if not fitting:
        return None
    known = ", ".join(f"{host.version} (driver {host.driver})" for host in fitting)
    where = "Set" if context.job_kind == "endpoint" else "On a SageMaker endpoint set"
    return Advice(
        f"By default, endpoint hosts of {context.instance_type} have driver {default.driver}."
        if default
        else "",
        f"{where} InferenceAmiVersion in the production variant (SDK: inference_ami_version in deploy): {known}.",
    )


def sagemaker_host(groups: Mapping[str, str], context: Context) -> Advice | None:
    """What chooses the driver on SageMaker, for errors that happen on any machine: only if the type is one of SageMaker.

    CreateTrainingJob and CreateProcessingJob have no member for it: botocore 1.44.5.
    """
    if not (context.instance_type or "").startswith("ml."):
        return None
    if context.job_kind in ("training", "processing"):
        remedy = "Use an image with an older CUDA (--framework-version; framework_version of the SDK)"
        if groups.get("code") != _NOT_STARTED:
            remedy += (
                f", or one with NVIDIA's compatibility library first in LD_LIBRARY_PATH ({COMPAT_FOLDER}): `gpuproof run` does "
                "that where NVIDIA supports the pair"
            )
        here = f"No request chooses the driver of a {context.job_kind} job's hosts."
        return Advice(here, f"{remedy}.", instead=True)
    return hosting_driver(groups, context)


def efa_here(_: Mapping[str, str], context: Context) -> Advice | None:
    """Whether the instance type has EFA, and whether AWS's launcher configures it."""
    name, instance = context.instance_type, context.catalogue.instance(context.instance_type or "")
    if instance is None:
        return None
    if not instance.efa_interfaces:
        return Advice(
            f"{name} has no EFA: NCCL falls back to TCP between hosts and needs no network within one. On one host the "
            "message is harmless and does not explain a hang.",
            "Nothing to change on one host. Several hosts communicate faster on a type with EFA.",
            instead=True,
        )
    if context.hosts == 1:
        return Advice(f"{name} has EFA, but this job has one host, which needs no network: harmless.")
    here = f"{name} has EFA ({instance.efa_interfaces} interfaces)."
    known = data_table("efa_launcher", "instance_type")
    if not str(name).startswith("ml.") or str(name) in known:
        return Advice(here)
    version = next(iter(known.values()))["version"]
    return Advice(
        f"{here} AWS's launcher (sagemaker-training {version}) does not know this type and does not configure EFA for it.",
        "Set in the job's environment: FI_PROVIDER=efa, FI_EFA_USE_DEVICE_RDMA=1, RDMAV_FORK_SAFE=1",
    )


def ami(_: Mapping[str, str], context: Context) -> Advice | None:
    """The SSM parameter with the id of the current AMI."""
    if context.instance_type is None:
        return None
    fitting = [ami for ami in context.catalogue.amis(context.instance_type) if ami.ssm_parameter]
    if not fitting:
        return None
    one = fitting[0]
    command = f"aws ssm get-parameter --name {one.ssm_parameter} --region {context.region} --query Parameter.Value --output text"
    return Advice(f"For {context.instance_type}: {one.name_pattern.rstrip('*')}.", command, instead=True)


ADVICE: dict[str, AdviceFunction] = {
    "sagemaker_quota": sagemaker_quota,
    "ec2_quota": ec2_quota,
    "ec2_spot_quota": ec2_spot_quota,
    "other_types": other_types,
    "accepted_for": accepted_for,
    "other_zones": other_zones,
    "image": image,
    "image_versions": image_versions,
    "endpoint_driver": endpoint_driver,
    "hosting_driver": hosting_driver,
    "sagemaker_host": sagemaker_host,
    "efa_here": efa_here,
    "ami": ami,
}


def _parse_quota_name(name: str) -> tuple[str | None, JobKind | None, str]:
    """Instance type, kind of job and market from the name of a SageMaker quota."""
    if studio := _STUDIO.search(name):
        return studio["type"], "studio", "on-demand"
    match = _QUOTA.search(name)
    if match is None:
        return None, None, ""
    if match["market"] == "training warm pool":
        return match["type"], "training", "warm-pool"
    use = match["use"] if match["use"] in JOB_KINDS else "training"
    return match["type"], cast("JobKind", use), match["market"] or "on-demand"


def _ec2_quota(groups: Mapping[str, str], context: Context, market: str) -> Advice | None:
    name = (groups.get("type") or context.instance_type or "").removeprefix("ml.")
    quota = context.catalogue.quota(name, context.region, market=market) if name else None
    if quota is None:
        return None
    code = f" ({quota.code})" if quota.code else ""
    return Advice(
        f"{name} counts {quota.needed} vCPUs against the quota '{quota.name}'{code} in {context.region}.",
        f"{quota.command}\n{quota.console_url}",
        instead=True,
    )


def _retired(context: Context, name: str, use: JobKind | None) -> str:
    """A note that the type is retired, whatever the quota; empty if it is not."""
    instance = context.catalogue.instance(name)
    if instance is None or instance.status != "retired":
        return ""
    return f" But {name} is retired and no longer available: use {_instead(context, name, use)}."


def _instead(context: Context, name: str, use: JobKind | None) -> str:
    found = context.catalogue.alternatives(name, use, context.region)[:_MAX_TYPES]
    return ", ".join(f"{match.instance.name} ({match.reason.rstrip('.')})" for match in found)


def _use_of(member: str) -> JobKind | None:
    if "roductionVariant" in member:
        return "endpoint"
    if "transformResources" in member:
        return "transform"
    if "processingResources" in member:
        return "processing"
    return "training" if "resourceConfig" in member else None
