"""Collects the results of a script: packs its artifacts and delivers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpuproof.agent.artifacts.archive_create import ArtifactError, PackResult, pack
from gpuproof.agent.artifacts.stray_models import Snapshot, stray_models
from gpuproof.agent.contract import code_folder
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import CONTRACT_ROOT, RunPaths
from gpuproof.util.file_copy import copy_file, merge_folder


@dataclass
class Results:
    """The results of a script.

    Args:
        problem: why the results could not be delivered; they are still in the run's folder then.
        empty_model: a remark that the script saved no model; with several hosts, often only one of them saves it.
    """

    artifacts: dict[str, PackResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    empty_model: str | None = None


def collect_results(
    job: AgentJob, paths: RunPaths, code_before: Snapshot, succeeded: bool, *, packs: bool = True
) -> Results:
    """Pack the artifacts and copy them to the job's destinations.

    Args:
        code_before: a `snapshot` of the code folder before the script started.
        succeeded: whether the script succeeded; only then an empty model folder is reported.
        packs: whether to pack a training job's folders; SageMaker packs them itself.
    """
    results = Results()
    try:
        if job.kind == "training":
            if packs:
                _pack_training(job, paths, results)
            if succeeded and job.machine is None and not _holds_anything(paths.ml / "model"):
                results.empty_model = _no_model(stray_models(paths.ml / code_folder(job), code_before))
        else:
            _deliver_outputs(job, paths)
    except ArtifactError as error:
        results.problem = str(error)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        results.problem = f"the results could not be delivered: {error.strerror or error}{where}"
    return results


def _pack_training(job: AgentJob, paths: RunPaths, results: Results) -> None:
    for folder, archive in (
        (paths.ml / "model", paths.model_archive),
        (paths.ml / "output" / "data", paths.output_archive),
    ):
        if not _holds_anything(folder):
            continue
        archive.parent.mkdir(exist_ok=True)
        packed = pack(folder, archive, seen_as=_script_paths(job, paths))
        results.artifacts[archive.name] = packed
        results.notes += [f"{archive.name}: {note}" for note in packed.notes]
    if job.output is None:
        return
    # After packing everything: the destination may be unwritable. The layout is SageMaker's below S3OutputPath.
    for name in results.artifacts:
        copy_file(paths.artifacts / name, Path(job.output) / job.run_id / "output" / name)


def _script_paths(job: AgentJob, paths: RunPaths) -> dict[str, Path]:
    """Where the script's paths are on this machine: links in the model folder may lead to inputs and checkpoints."""
    mounted = {f"{CONTRACT_ROOT}/{mount.target}": Path(mount.source) for mount in job.mounts}
    return {CONTRACT_ROOT: paths.ml, f"{CONTRACT_ROOT}/checkpoints": Path(job.checkpoints), **mounted}


def _deliver_outputs(job: AgentJob, paths: RunPaths) -> None:
    for output in job.outputs:
        if output.destination is not None:
            merge_folder(paths.ml / output.target, Path(output.destination))


def _holds_anything(folder: Path) -> bool:
    return any(path.is_symlink() or not path.is_dir() for path in folder.rglob("*"))


def _no_model(strays: list[str]) -> str:
    note = "/opt/ml/model is empty: this run saved no model"
    if not strays:
        return note
    shown = ", ".join(strays[:3]) + (" …" if len(strays) > 3 else "")
    return (
        f"{note}, but {shown} in the working directory looks like one and would be lost on SageMaker. "
        "Save to os.environ['SM_MODEL_DIR']."
    )
