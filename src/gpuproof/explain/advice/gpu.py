"""Advice about drivers, GPU kernels and GPU memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from gpuproof.catalogue import Build, Catalogue, Gpu, Instance, InstanceQuery
from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Advice, AdviceFunction
from gpuproof.gpu.xids import known_xids
from gpuproof.util.csv_table import read_package_rows
from gpuproof.util.humanize import format_bytes
from gpuproof.util.versions import version_key

TORCH_INDEX = "https://download.pytorch.org/whl"


def driver_here(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The loaded driver."""
    if context.driver is None:
        return None
    library = groups.get("library")
    other = f"; the NVML library is {library}" if library else ""
    return Advice(f"Loaded kernel module on {context.machine}: {context.driver}{other}.")


def driver_branch(_: Mapping[str, str], context: Context) -> Advice | None:
    """The last driver branch that supports the GPU."""
    for gpu in _models(context):
        if gpu.driver_last is not None:
            return Advice(
                f"{gpu.name} on {context.machine}: driver branch {gpu.driver_last} is the last that supports it."
            )
    return None


def cuda_driver(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The driver that the CUDA of the build or image requires, and a build that this driver supports."""
    build = _build(groups, context)
    cuda = groups.get("needed") or (build.cuda if build else "")
    floor = context.catalogue.driver_floor(cuda) if cuda else None
    what = f"{build}: CUDA {build.cuda}" if build and not groups.get("needed") else f"CUDA {cuda}"
    # The container toolkit compares the CUDA that the driver itself brings, so a minor version counts.
    minimum = _branches().get(groups.get("needed", "")) or (floor.minimum if floor else "")
    required = f"{what} requires driver {minimum} or later" if minimum else ""
    installed = f"{context.machine} has {context.driver}" if context.driver else ""
    here = "; ".join(filter(None, (required, installed)))
    served = _cuda_level(groups, context)
    older = _build_for_cuda(build, served, context.catalogue) if served else None
    remedy = f"With this driver: {_install(older)}" if older else ""
    return Advice(f"{here}." if here else "", remedy) if here or remedy else None


@cache
def _branches() -> dict[str, str]:
    """The driver branch that each CUDA came with."""
    return {row["cuda"]: row["branch"] for row in read_package_rows("gpuproof.gpu", "data/cuda_compat.csv")}


def kernels(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Whether the build runs on the GPU, and which build does if not."""
    gpu = _gpu(groups, context)
    if gpu is None:
        return None
    build = _build(groups, context)
    better = _build_for_gpu(groups, build, gpu, context.catalogue)
    named = groups.get("gpu", "")
    if named and context.catalogue.gpu(named) is None:
        # No GPU of AWS, but of the same architecture as one.
        return Advice("", f"{better} supports it: {_install(better)}" if better else "")
    reason = context.catalogue.runs_on(build, gpu).reason if build else f"The GPU is {_describe(gpu)}."
    return Advice(reason, f"{better} supports {gpu.name}: {_install(better)}" if better else "")


def gpu_here(_: Mapping[str, str], context: Context) -> Advice | None:
    """The GPUs of the machine."""
    if context.gpus is None:
        return None
    if not context.gpus:
        return Advice(f"No GPU on {context.machine}." + _cpu_type(context))
    return Advice(
        f"{_first_upper(context.machine)} has {_gpu_list(context.gpus)}" + _driver_note(context) + "."
    )


def gpu_model(_: Mapping[str, str], context: Context) -> Advice | None:
    """The GPU model and its compute capability."""
    gpu = next(iter(_models(context)), None)
    if gpu is None or gpu.compute_capability is None:
        return None
    capability = ".".join(map(str, gpu.compute_capability))
    return Advice(f"{_first_upper(context.machine)} has {gpu.name}, compute capability {capability}.")


def gpu_memory(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Total GPU memory, and the next instance type with more."""
    total = _bytes(groups.get("total")) or context.gpu_memory
    if total is None:
        return None
    each = " each" if len(context.gpus or ()) > 1 else ""
    gpus = f"{_gpu_list(context.gpus) if context.gpus else 'a GPU'} with {format_bytes(total)}{each}"
    bigger = _bigger(context, total)
    more = (
        f"Next type with more GPU memory: {bigger.name} ({bigger.gpu_model}, {format_bytes(bigger.gpu_memory)})."
        if bigger
        else ""
    )
    return Advice(f"{_first_upper(context.machine)} has {gpus}.", otherwise=more)


def fragments(groups: Mapping[str, str], _: Context) -> Advice | None:
    """Memory that torch reserved in fragments and cannot use."""
    reserved, wanted = _bytes(groups.get("reserved")), _bytes(groups.get("wanted"))
    if not reserved or not wanted or reserved < wanted:
        return None
    return Advice(
        f"torch had reserved {groups['reserved']} in fragments, more than the {groups['wanted']} that it requested.",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets torch use the fragments; try it first.",
    )


def framework(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Whether the framework's own wheel is a CPU build."""
    build = _build(groups, context, "arm64" if _on_arm(context) else "x86_64")
    if build is None or build.device != "cpu":
        return None
    return Advice(f"{build} for {build.arch} is a CPU build: {build.note or 'no other exists'}.")


def xid(groups: Mapping[str, str], _: Context) -> Advice | None:
    """NVIDIA's meaning of the Xid."""
    known = known_xids().get(int(groups.get("xid") or 0))
    if known is None:
        return None
    return Advice(f"Xid {known.number}: {known.meaning}.", known.remedy, instead=True)


ADVICE: dict[str, AdviceFunction] = {
    "driver_here": driver_here,
    "driver_branch": driver_branch,
    "cuda_driver": cuda_driver,
    "kernels": kernels,
    "gpu_here": gpu_here,
    "gpu_model": gpu_model,
    "gpu_memory": gpu_memory,
    "fragments": fragments,
    "framework": framework,
    "xid": xid,
}


def _build(groups: Mapping[str, str], context: Context, arch: str = "x86_64") -> Build | None:
    """The framework build that the log names; `None` if its version is unknown."""
    name = _framework_name(groups)
    version = context.frameworks.get(name)
    return context.catalogue.build(f"{name}=={version}", arch) if version else None


def _framework_name(groups: Mapping[str, str]) -> str:
    return "tensorflow" if groups["code"].startswith(("tf-", "keras-", "cuda-init")) else "torch"


def _cuda_level(groups: Mapping[str, str], context: Context) -> str | None:
    """The newest CUDA version that the driver supports, such as `12.8`."""
    if groups.get("found_cuda"):
        return groups["found_cuda"]
    if context.driver is None:
        return None
    rows = (row for row in context.catalogue.tables.cuda_drivers if row.update == 0)
    served = [row.cuda for row in rows if version_key(row.driver) <= version_key(context.driver)]
    return max(served, key=version_key, default=None)


def _build_for_cuda(build: Build | None, cuda: str, catalogue: Catalogue) -> Build | None:
    """The torch build of the same version, or else the newest, that a driver of this CUDA version runs."""
    if build is not None and build.framework != "torch":
        return None
    candidates = [
        candidate
        for candidate in catalogue.tables.builds
        if candidate.framework == "torch"
        and candidate.arch == "x86_64"
        and candidate.cuda
        and version_key(candidate.cuda)[0] <= version_key(cuda)[0]
        and (build is None or candidate.version == build.version)
    ]

    def preference(one: Build) -> tuple[tuple[int, ...], bool, float]:
        # Since CUDA 11 a driver runs every binary of its major version; builds whose PTX it can compile are preferred.
        level = float(one.cuda)
        served = version_key(one.cuda) <= version_key(cuda)
        return version_key(one.version), served, level if served else -level

    return max(candidates, key=preference, default=None)


def _build_for_gpu(
    groups: Mapping[str, str], build: Build | None, gpu: Gpu, catalogue: Catalogue
) -> Build | None:
    name = _framework_name(groups)
    candidates = (
        candidate
        for candidate in catalogue.tables.builds
        if candidate.framework == name
        and candidate != build
        and (build is None or candidate.arch == build.arch)
        and catalogue.runs_on(candidate, gpu).kind == "native"
    )
    return max(
        candidates,
        key=lambda candidate: (
            build is not None and candidate.version == build.version,
            version_key(candidate.version),
        ),
        default=None,
    )


def _install(build: Build) -> str:
    if build.framework != "torch":
        return f"pip install '{build.framework}[and-cuda]=={build.version}.*'"
    index = "" if build.variant == "default" else f" --index-url {TORCH_INDEX}/{build.variant}"
    return f"pip install 'torch=={build.version}.*'{index}"


def _gpu(groups: Mapping[str, str], context: Context) -> Gpu | None:
    named = context.catalogue.gpu(groups["gpu"]) if groups.get("gpu") else None
    if named is not None:
        return named
    digits = re.search(r"(\d+)\.?(\d)a?$", groups.get("capability") or groups.get("compute") or "")
    models = list(_models(context))
    if digits is None:
        return models[0] if models else None
    capability = int(digits[1]), int(digits[2])
    known = [*models, *context.catalogue.tables.gpus.values()]
    return next((gpu for gpu in known if gpu.compute_capability == capability), None)


def _models(context: Context) -> Iterable[Gpu]:
    return (gpu for name in dict.fromkeys(context.gpus or ()) if (gpu := context.catalogue.gpu(name)))


def _describe(gpu: Gpu) -> str:
    capability = ".".join(map(str, gpu.compute_capability or ()))
    return f"a {gpu.name} ({gpu.architecture}, compute capability {capability})"


def _bigger(context: Context, total: int) -> Instance | None:
    from gpuproof.units import Memory, MemoryRange

    on_sagemaker = (context.instance_type or "").startswith("ml.")
    request = InstanceQuery(
        gpu_memory=MemoryRange(Memory(int(total * 1.2)), None),
        region=context.region,
        service="sagemaker" if on_sagemaker else "ec2",
        use=context.job_kind if on_sagemaker else None,
    )
    here = context.catalogue.instance(context.instance_type) if context.instance_type else None
    min_count = here.gpu_count if here else 1
    found = context.catalogue.search(request)
    return next(
        (
            match
            for match in found
            if match.fraction == 1 and match.gpu_count >= min_count and match.status == "offered"
        ),
        None,
    )


def _bytes(text: str | None) -> int | None:
    match = re.fullmatch(r"([\d.]+) ?([KMGT])i?B", text or "")
    return int(float(match[1]) * 1024 ** (" KMGT".index(match[2]))) if match else None


def _gpu_list(gpus: tuple[str, ...] | None) -> str:
    names = gpus or ()
    return f"{len(names)} x {names[0]}" if names else "no GPU"


def _driver_note(context: Context) -> str:
    return f" (driver {context.driver})" if context.driver else ""


def _cpu_type(context: Context) -> str:
    if context.instance_type is None:
        return ""
    instead = context.catalogue.replacements(context.instance_type, context.job_kind, context.region)
    return f" The cheapest type with one: {instead[0].instance.name}, {instead[0].reason}" if instead else ""


def _on_arm(context: Context) -> bool:
    instance = context.catalogue.instance(context.instance_type) if context.instance_type else None
    return instance is not None and instance.arch == "arm64"


def _first_upper(text: str) -> str:
    return text if text.startswith(("ml.", "g", "p")) else text[:1].upper() + text[1:]
