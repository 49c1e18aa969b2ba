"""The end of a run: what the script left is packed, handed over and looked through."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpuproof.agent.artifacts.archive_create import ArtifactError, PackResult, pack
from gpuproof.agent.artifacts.stray_models import Snapshot, models_left_behind
from gpuproof.agent.contract import code_folder
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import CONTRACT_ROOT, RunPaths
from gpuproof.util.file_copy import copy_file, merge_folder


@dataclass
class Handover:
    """What became of the script's results.

    Args:
        artifacts: archives that were made, by file name.
        notes: what a person should know.
        problem: why results could not be handed over; they still lie in the run's folder then.
    """

    artifacts: dict[str, PackResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None


def hand_over(
    job: AgentJob, paths: RunPaths, code_before: Snapshot, succeeded: bool, *, packs: bool = True
) -> Handover:
    """Pack the artifacts and bring them where the job wants them.

    Args:
        code_before: a `snapshot` of the code folder from before the script.
        succeeded: whether the script did; an empty model folder is worth a word only then.
        packs: whether a training job's folders are packed here; on SageMaker they are packed by it.
    """
    handover = Handover()
    try:
        if job.kind == "training":
            if packs:
                _pack_training(job, paths, handover)
            if succeeded and not _holds_anything(paths.ml / "model"):
                handover.notes.append(_no_model(models_left_behind(paths.ml / code_folder(job), code_before)))
        else:
            _deliver_outputs(job, paths)
    except ArtifactError as error:
        handover.problem = str(error)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        handover.problem = f"the results could not be handed over: {error.strerror or error}{where}"
    return handover


def _pack_training(job: AgentJob, paths: RunPaths, handover: Handover) -> None:
    for folder, archive in (
        (paths.ml / "model", paths.model_archive),
        (paths.ml / "output" / "data", paths.output_archive),
    ):
        if not _holds_anything(folder):
            continue
        archive.parent.mkdir(exist_ok=True)
        result = pack(folder, archive, seen_as=_as_the_script_saw_it(job, paths))
        handover.artifacts[archive.name] = result
        handover.notes += [f"{archive.name}: {note}" for note in result.notes]
    if job.output is None:
        return
    # Only now that all are packed: the destination may refuse. As SageMaker lays it out below S3OutputPath.
    for name in handover.artifacts:
        copy_file(paths.artifacts / name, Path(job.output) / job.run_id / "output" / name)


def _as_the_script_saw_it(job: AgentJob, paths: RunPaths) -> dict[str, Path]:
    """Links in the model folder may lead to inputs and checkpoints by the paths that they had for the script."""
    mounted = {f"{CONTRACT_ROOT}/{mount.target}": Path(mount.source) for mount in job.mounts}
    return {CONTRACT_ROOT: paths.ml, f"{CONTRACT_ROOT}/checkpoints": Path(job.checkpoints), **mounted}


def _deliver_outputs(job: AgentJob, paths: RunPaths) -> None:
    for output in job.outputs:
        if output.destination is not None:
            merge_folder(paths.ml / output.target, Path(output.destination))


def _holds_anything(folder: Path) -> bool:
    return any(path.is_symlink() or not path.is_dir() for path in folder.rglob("*"))


def _no_model(left_behind: list[str]) -> str:
    note = "/opt/ml/model is empty: this run saved no model"
    if not left_behind:
        return note
    shown = ", ".join(left_behind[:3]) + (" …" if len(left_behind) > 3 else "")
    return (
        f"{note}, but {shown} in the working directory looks like one and would be lost on SageMaker. "
        "Save to os.environ['SM_MODEL_DIR']."
    )
