"""The plan of a local run: everything that is decided before its folder is created."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.agent.contract import script_arguments
from gpuproof.agent.job import AgentJob
from gpuproof.agent.local_hosts.gpus import distribute_gpus, visible_gpus
from gpuproof.agent.paths import RunPaths
from gpuproof.backends.agent_job.document import shown_job_document
from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus, expected_gpus, reject_unknown_gpus
from gpuproof.backends.agent_job.launch_settings import (
    LaunchSettings,
    launch_settings,
    new_cluster_key,
    script_uses,
)
from gpuproof.backends.agent_job.machine import machine_text
from gpuproof.backends.agent_job.notifications import require_webhook
from gpuproof.backends.agent_job.provenance import input_address, provenance
from gpuproof.backends.display import DisplayedPlan
from gpuproof.backends.interpreter import find_interpreter
from gpuproof.backends.local.agent_job import Sources, local_job, plan_warnings
from gpuproof.backends.s3_inputs.mapping import S3Prefix
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GpuRequired, InvalidJob
from gpuproof.gpu.nvml import count_gpus
from gpuproof.jobs.output_folders import output_folders
from gpuproof.jobs.source.digests import folder_digest
from gpuproof.jobs.source.secret_files import find_secret_names
from gpuproof.jobs.source.tree import SourceTree, collect
from gpuproof.jobs.validators import is_s3
from gpuproof.settings import own_folders
from gpuproof.util.installed_frameworks import FRAMEWORK_DISTRIBUTIONS, installed_frameworks
from gpuproof.util.versions import version_key

if TYPE_CHECKING:
    from gpuproof.agent.job import PlannedFlops
    from gpuproof.backends.api_call import ApiCall
    from gpuproof.backends.base import Run
    from gpuproof.jobs.script_job import AnyJob

_MODULES = {"tensorflow": "tensorflow", "keras": "keras", "pytorch": "torch", "jax": "jax"}
_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "torch": "PyTorch", "jax": "JAX"}


_MOST_NAMED = 5


@dataclass(frozen=True, repr=False)
class LocalPlan(DisplayedPlan):
    """The plan of a local run; implements `gpuproof.backends.base.Plan`.

    Args:
        job: the job, with absolute paths.
        gpus_here: number of GPUs of this machine.
        sources: the folder, file or S3 prefix of each input; S3 prefixes are downloaded before the run starts.
        isolation: `auto`, or the name of one isolation method.
        fresh: start without an earlier run's checkpoints.
        cluster_key: the secret of the hosts' agents; empty on one host.
        warnings: what the user should know before the run starts.
        planned_flops: of a step of the script, if it was planned.
    """

    job: AnyJob
    python: str
    expected: ExpectedGpus
    gpus_here: int
    sources: Sources
    tree: SourceTree
    isolation: str
    fresh: bool
    launch: LaunchSettings
    cluster_key: str
    warnings: tuple[str, ...]
    run_id: None = None
    offer: None = None
    max_usd: float = 0.0
    planned_flops: PlannedFlops | None = None

    @property
    def remote_inputs(self) -> dict[str, S3Prefix]:
        """The inputs on S3 that are not downloaded yet."""
        return {name: source for name, source in self.sources.items() if isinstance(source, S3Prefix)}

    @property
    def own_checkpoints(self) -> Path | None:
        """The folder that the job names for its checkpoints, or a machine's own source; `None` if the run keeps them."""
        job = self.job
        if job.kind == "machine":
            return Path(job.source_dir)
        if job.kind == "training" and job.checkpoint is not None and job.checkpoint.path is not None:
            return Path(job.checkpoint.path)
        return None

    def agent_job(self, paths: RunPaths) -> AgentJob:
        """The agent's job for a run in that folder."""
        agent_job = local_job(
            self.job,
            paths,
            python=self.python,
            expected=self.expected,
            gpus_here=self.gpus_here,
            checkpoints=self.own_checkpoints or paths.checkpoints,
            sources=self.sources,
            isolation=self.isolation,
        )
        return replace(self.launch.apply(agent_job, self.cluster_key), planned_flops=self.planned_flops)

    def provenance(self) -> dict[str, Any]:
        """What the run's record says of its code and inputs; reads all source files, and inputs of moderate size."""
        return provenance(self.job, self.tree, {name: self._manifest(name) for name in self.sources})

    def _manifest(self, name: str) -> dict[str, Any]:
        source, address = self.sources[name], input_address(self.job, name)
        if isinstance(source, S3Prefix):
            return {"uri": str(source)}
        known = folder_digest(source).to_json()
        # The folder of downloaded objects is named after their keys and ETags.
        return known if address is None else {"uri": address, "listing": source.name, **known}

    def describe(self) -> Iterator[tuple[str, str]]:
        """The plan as labels and texts. Starts the script's interpreter to find out which frameworks it has."""
        job, tree, planned = self.job, self.tree, self.agent_job(RunPaths(Path("/")))
        # Before the first line is printed: the lines then appear together.
        installed = installed_frameworks(self.python)
        if job.kind == "machine":
            yield "machine", machine_text(job)
        else:
            yield "script", " ".join([job.entry_point, *script_arguments(planned)])
        yield "code", tree.describe()
        yield "python", self.python
        for mount in planned.mounts:
            yield "input", f"/opt/ml/{mount.target} is {mount.source}"
        for output in planned.outputs:
            yield "output", f"/opt/ml/{output.target} goes to {output.destination or 'the run'}"
        yield "GPU", self._gpus()
        gpus = self._host_gpus(planned.hosts)
        if len(planned.hosts) > 1:
            yield "hosts", _hosts_text(gpus)
        if (launcher := self.launch.describe(len(next(iter(gpus.values()))), job.instance_count)) is not None:
            yield "launcher", launcher
        if planned.max_duration is not None:
            yield "time limit", str(job.max_duration)
        if installed:
            yield "framework", ", ".join(f"{name} {version}" for name, version in installed.items())
        for warning in self.warnings:
            yield "note", warning
        if (warning := framework_warning(job, installed)) is not None:
            yield "note", warning

    def document(self) -> dict[str, Any]:
        """The plan as JSON, version 1; `RUN` stands for the run's folder."""
        return {
            "version": 1,
            "backend": "local",
            "job": shown_job_document(self.agent_job(RunPaths(Path("RUN")))),
            "files": [{"name": name, "bytes": size} for name, size in self.files()],
            "notes": self.warnings,
        }

    def files(self) -> list[tuple[str, int]]:
        """The source files, each with its size in bytes."""
        return self.tree.listing()

    def calls(self) -> tuple[ApiCall, ...]:
        """No API calls: everything happens on this machine."""
        return ()

    def detach_notes(self, run: Run) -> Iterable[str]:  # noqa: ARG002 - for backends that deliver results
        """Nothing: the agent does everything."""
        return ()

    def _host_gpus(self, hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The GPUs of each host; one host has all of this machine's."""
        setting = self.job.environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
        return distribute_gpus(visible_gpus(self.gpus_here, setting), hosts)

    def _gpus(self) -> str:
        expected, here = self.expected, self.gpus_here
        there = f"this machine has {here}" if here else "this machine has none: the script runs on the CPU"
        if expected.count is None:
            return f"none requested; {there}"
        if expected.count == 0:
            return f"none requested ({expected.because}); {there}"
        return f"{expected.count} x {expected.name or 'any model'} requested ({expected.because}); {there}"


def plan_run(
    job: AnyJob, *, python: str | None = None, isolation: str = "auto", fresh: bool = False
) -> LocalPlan:
    """Decide everything about a run without creating anything.

    Args:
        job: with absolute paths.
        python: the script's interpreter; see `gpuproof.backends.interpreter.find_interpreter`.
        isolation: `auto`, or the name of one isolation method.
        fresh: start without an earlier run's checkpoints.

    Raises:
        InvalidJob: the job cannot run on this machine, or a file that it names does not exist.
        UsageError: the interpreter does not exist, or the source folder is too large.
        GpuRequired: the job requires a GPU and this machine has none.
    """
    require_webhook(job, os.environ)
    catalogue = Catalogue.load()
    expected = expected_gpus(job, catalogue)
    if job.require_gpu and expected.count == 0:
        raise InvalidJob(f"'{job.name}' requires a GPU, but {expected.because}.", remedy="gpuproof gpus")
    here = count_gpus()
    if not here:
        # A machine with GPUs may have one that AWS does not offer.
        reject_unknown_gpus(job, catalogue)
    if job.require_gpu and here == 0:
        raise GpuRequired(
            f"'{job.name}' requires a GPU, but the NVIDIA driver shows none on this machine.",
            remedy="Run it on a machine with a GPU, or use --no-require-gpu to try it here.",
        )
    sources = {name: _source(job, name) for name in job.inputs}
    inputs = [path for path in sources.values() if isinstance(path, Path)]
    tree = collect(
        Path(job.source_dir),
        job.entry_point,
        exclude=[*inputs, *output_folders(job), *own_folders()],
        include=job.include,
        respect_gitignore=job.respect_gitignore,
    )
    interpreter = find_interpreter(python)
    if job.framework is not None:
        require_framework(job, installed_frameworks(interpreter), interpreter)
    launch = launch_settings(job, script_uses(job, here), here)
    plan = LocalPlan(
        job=job,
        python=interpreter,
        expected=expected,
        gpus_here=here,
        sources=sources,
        tree=tree,
        isolation=isolation,
        fresh=fresh,
        launch=launch,
        cluster_key=new_cluster_key(job),
        warnings=(*plan_warnings(job, expected), *tree.notes, *_secret_notes(job, tree), *launch.notes),
    )
    plan.agent_job(RunPaths(Path("/")))  # raises InvalidJob for a job that needs more than one host
    return plan


def _hosts_text(gpus: Mapping[str, Sequence[str]]) -> str:
    names = ", ".join(f"{host} (GPU {', '.join(those)})" if those else host for host, those in gpus.items())
    return f"{len(gpus)} on this machine: {names}"


def _secret_notes(job: AnyJob, tree: SourceTree) -> list[str]:
    """A note that other backends refuse some files; here, they only go into the run's folder."""
    names = [file.relative for file in tree.files]
    secrets = [secret.name for secret in find_secret_names(tree.root, names, job.include)]
    if not secrets:
        return []
    looks = "looks like a secret" if len(secrets) == 1 else "look like secrets"
    more = "" if len(secrets) <= _MOST_NAMED else f" and {len(secrets) - _MOST_NAMED} more"
    return [f"{', '.join(secrets[:_MOST_NAMED])}{more} {looks}: copied for this run, but not uploaded to AWS"]


def _source(job: AnyJob, name: str) -> Path | S3Prefix:
    given = job.inputs[name]
    text = given if isinstance(given, str) else given.source
    if is_s3(text):
        return S3Prefix.parse(text)
    path = Path(text)
    if not path.exists():
        raise InvalidJob(
            f"Input '{name}' of '{job.name}' does not exist: {path}.", remedy=f"--input {name}=FOLDER"
        )
    return path.resolve()


def require_framework(job: AnyJob, installed: Mapping[str, str], python: str) -> None:
    """Reject a job whose framework is not installed: it would only fail after it was started.

    Args:
        installed: versions by import name, from `gpuproof.util.installed_frameworks.installed_frameworks`.

    Raises:
        InvalidJob: the interpreter lacks the framework, and neither `requirements.txt` nor `setup.py` may install it.
    """
    module = _MODULES.get(job.framework or "")
    if module is None or module in installed or _may_be_installed(job, module):
        return
    raise InvalidJob(
        f"'{job.name}' sets framework: {job.framework}, but {python} has no {_NAMES[module]} ({module}).",
        remedy=f"Install it: {python} -m pip install {module}\n"
        f"Or add {module} to requirements.txt, or choose another interpreter: --python PYTHON",
    )


def framework_warning(job: AnyJob, installed: Mapping[str, str]) -> str | None:
    """A warning if the installed framework is not the one that the job names; else `None`.

    Args:
        installed: versions by import name, from `gpuproof.util.installed_frameworks.installed_frameworks`.
    """
    if job.framework is None:
        return None
    module = _MODULES.get(job.framework, "")
    here, wanted = installed.get(module), job.framework_version
    if here is None or wanted is None or _matches(here, wanted):
        return None
    return f"the job's framework_version is {wanted}, but this interpreter has {module} {here}"


def _may_be_installed(job: AnyJob, module: str) -> bool:
    """Whether the run may install the framework before the script starts."""
    source = Path(job.source_dir)
    if (source / "setup.py").is_file():
        return True
    try:
        lines = (source / "requirements.txt").read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return False
    names = "|".join(re.escape(name) for name in FRAMEWORK_DISTRIBUTIONS[module])
    return any(re.match(rf"\s*(({names})\b|-r|--requirement)", line, re.IGNORECASE) for line in lines)


def _matches(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one or one of its patch releases: 2.19.1 matches 2.19, but 2.1 does not."""
    expected = version_key(wanted)
    return version_key(version)[: len(expected)] == expected
