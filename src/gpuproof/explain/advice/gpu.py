"""Advice about drivers, kernels and the memory of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuproof.catalogue import Build, Catalogue, Gpu, Instance, Request
from gpuproof.catalogue.builds import version_key
from gpuproof.explain.advice.form import Advice, Advise, gib
from gpuproof.explain.context import Context
from gpuproof.explain.patterns import table

TORCH_INDEX = "https://download.pytorch.org/whl"


def driver_here(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Which driver is loaded."""
    if context.driver is None:
        return None
    library = groups.get("library")
    other = f"; the NVML library is {library}" if library else ""
    return Advice(f"The kernel module loaded on {context.there} is {context.driver}{other}.")


def driver_branch(_: Mapping[str, str], context: Context) -> Advice | None:
    """The last driver that serves the GPU."""
    for gpu in _models(context):
        if gpu.driver_last is not None:
            return Advice(
                f"{gpu.name}, on {context.there}: driver branch {gpu.driver_last} is the last that serves it."
            )
    return None


def cuda_driver(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The driver that the CUDA of the build or image wants, and the build that this driver serves."""
    build = _build(groups, context)
    cuda = groups.get("needed") or (build.cuda if build else "")
    floor = context.catalogue.driver_floor(cuda) if cuda else None
    what = f"{build}: CUDA {build.cuda}" if build and not groups.get("needed") else f"CUDA {cuda}"
    wants = f"{what} wants driver {floor.minimum} or later" if floor else ""
    has = f"{context.there} has {context.driver}" if context.driver else ""
    here = "; ".join(filter(None, (wants, has)))
    found = _cuda_level(groups, context)
    older = _build_for_cuda(build, found, context.catalogue) if found else None
    remedy = f"With this driver: {_install(older)}" if older else ""
    return Advice(f"{here}." if here else "", remedy) if here or remedy else None


def kernels(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Whether the build runs on the GPU, and which build does."""
    gpu = _gpu(groups, context)
    if gpu is None:
        return None
    build = _build(groups, context)
    reason = context.catalogue.runs_on(build, gpu).reason if build else f"The GPU is {_article(gpu)}."
    better = _build_for_gpu(groups, build, gpu, context.catalogue)
    return Advice(reason, f"{gpu.name} runs {better}: {_install(better)}" if better else "")


def gpu_here(_: Mapping[str, str], context: Context) -> Advice | None:
    """How many GPUs there are."""
    if context.gpus is None:
        return None
    if not context.gpus:
        return Advice(f"There is no GPU on {context.there}." + _cpu_type(context))
    return Advice(f"{_first_upper(context.there)} has {_counted(context.gpus)}" + _driver_note(context) + ".")


def gpu_model(_: Mapping[str, str], context: Context) -> Advice | None:
    """Which GPU it is, where that decides what it can do."""
    gpu = next(iter(_models(context)), None)
    if gpu is None or gpu.compute_capability is None:
        return None
    capability = ".".join(map(str, gpu.compute_capability))
    return Advice(f"{_first_upper(context.there)} has {gpu.name}, compute capability {capability}.")


def gpu_memory(groups: Mapping[str, str], context: Context) -> Advice | None:
    """How much there is, and the next type with more."""
    total = _bytes(groups.get("total")) or context.gpu_memory
    if total is None:
        return None
    of = _counted(context.gpus) + f" with {gib(total)} each" if context.gpus else f"a GPU with {gib(total)}"
    bigger = _bigger(context, total)
    more = (
        f"The next with more: {bigger.name} ({bigger.gpu_model}, {gib(bigger.gpu_memory)})." if bigger else ""
    )
    return Advice(f"{_first_upper(context.there)} has {of}.", otherwise=more)


def fragments(groups: Mapping[str, str], _: Context) -> Advice | None:
    """Memory that torch holds and cannot use."""
    reserved, wanted = _bytes(groups.get("reserved")), _bytes(groups.get("wanted"))
    if not reserved or not wanted or reserved < wanted:
        return None
    return Advice(
        f"torch held {groups['reserved']} in fragments, more than the {groups['wanted']} that it wanted.",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first: it lets torch use the fragments.",
    )


def framework(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Where the framework's own wheel has no CUDA at all."""
    build = _build(groups, context, "arm64" if _on_arm(context) else "x86_64")
    if build is None or build.device != "cpu":
        return None
    return Advice(f"{build} for {build.arch} is a CPU build: {build.note or 'no other exists'}.")


def xid(groups: Mapping[str, str], _: Context) -> Advice | None:
    """What NVIDIA means by the number."""
    row = table("xids", "xid").get(groups.get("xid", ""))
    if row is None:
        return None
    return Advice(f'Xid {row["xid"]} is NVIDIA\'s "{row["meaning"]}".', row["remedy"], instead=True)


ADVICE: dict[str, Advise] = {
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
    """The framework's build that the log is about: its version where the log gives it away."""
    name = _framework(groups)
    version = context.frameworks.get(name)
    return context.catalogue.build(f"{name}=={version}", arch) if version else None


def _framework(groups: Mapping[str, str]) -> str:
    return "tensorflow" if groups["code"].startswith(("tf-", "keras-", "cuda-init")) else "torch"


def _cuda_level(groups: Mapping[str, str], context: Context) -> str | None:
    """The CUDA that the driver serves, as `12.8`."""
    if groups.get("found_cuda"):
        return groups["found_cuda"]
    if context.driver is None:
        return None
    rows = (row for row in context.catalogue.tables.cuda_drivers if row.update == 0)
    served = [row.cuda for row in rows if version_key(row.driver) <= version_key(context.driver)]
    return max(served, key=version_key, default=None)


def _build_for_cuda(build: Build | None, cuda: str, catalogue: Catalogue) -> Build | None:
    """The torch of the same version, or the newest, that a driver of this CUDA level serves."""
    if build is not None and build.framework != "torch":
        return None
    candidates = [
        one
        for one in catalogue.tables.builds
        if one.framework == "torch"
        and one.arch == "x86_64"
        and one.cuda
        and version_key(one.cuda)[0] <= version_key(cuda)[0]
        and (build is None or one.version == build.version)
    ]

    def preference(one: Build) -> tuple[tuple[int, ...], bool, float]:
        # From CUDA 11 on a driver serves every binary of its major version; what it also compiles PTX of is better.
        level = float(one.cuda)
        served = version_key(one.cuda) <= version_key(cuda)
        return version_key(one.version), served, level if served else -level

    return max(candidates, key=preference, default=None)


def _build_for_gpu(
    groups: Mapping[str, str], build: Build | None, gpu: Gpu, catalogue: Catalogue
) -> Build | None:
    name = _framework(groups)
    candidates = (
        one
        for one in catalogue.tables.builds
        if one.framework == name
        and one != build
        and (build is None or one.arch == build.arch)
        and catalogue.runs_on(one, gpu).kind == "native"
    )
    return max(
        candidates,
        key=lambda one: (build is not None and one.version == build.version, version_key(one.version)),
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
    wanted = int(digits[1]), int(digits[2])
    known = [*models, *context.catalogue.tables.gpus.values()]
    return next((one for one in known if one.compute_capability == wanted), None)


def _models(context: Context) -> Iterable[Gpu]:
    return (gpu for name in dict.fromkeys(context.gpus or ()) if (gpu := context.catalogue.gpu(name)))


def _article(gpu: Gpu) -> str:
    capability = ".".join(map(str, gpu.compute_capability or ()))
    return f"a {gpu.name} ({gpu.architecture}, compute capability {capability})"


def _bigger(context: Context, total: int) -> Instance | None:
    from gpuproof.units import Memory, MemoryRange

    on_sagemaker = (context.instance_type or "").startswith("ml.")
    request = Request(
        gpu_memory=MemoryRange(Memory(int(total * 1.2)), None),
        region=context.region,
        place="sagemaker" if on_sagemaker else "ec2",
        use=context.use if on_sagemaker else None,
    )
    here = context.catalogue.instance(context.instance_type) if context.instance_type else None
    least = here.gpu_count if here else 1
    found = context.catalogue.search(request)
    return next(
        (one for one in found if one.fraction == 1 and one.gpu_count >= least and one.status == "offered"),
        None,
    )


def _bytes(text: str | None) -> int | None:
    match = re.fullmatch(r"([\d.]+) ?([KMGT])i?B", text or "")
    return int(float(match[1]) * 1024 ** (" KMGT".index(match[2]))) if match else None


def _counted(gpus: tuple[str, ...] | None) -> str:
    names = gpus or ()
    return f"{len(names)} x {names[0]}" if names else "no GPU"


def _driver_note(context: Context) -> str:
    return f" (driver {context.driver})" if context.driver else ""


def _cpu_type(context: Context) -> str:
    if context.instance_type is None:
        return ""
    instead = context.catalogue.replacements(context.instance_type, context.use, context.region)
    return f" The cheapest with one: {instead[0].instance.name}, {instead[0].reason}" if instead else ""


def _on_arm(context: Context) -> bool:
    instance = context.catalogue.instance(context.instance_type) if context.instance_type else None
    return instance is not None and instance.arch == "arm64"


def _first_upper(text: str) -> str:
    return text if text.startswith(("ml.", "g", "p")) else text[:1].upper() + text[1:]
