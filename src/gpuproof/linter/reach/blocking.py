"""Decides which findings stop a job before it starts: those that are certain and that this job reaches.

The other errors become warnings that say why they do not stop the job.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gpuproof.findings import Severity
from gpuproof.linter.internal_errors import ErrorLog
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit

if TYPE_CHECKING:
    from gpuproof.linter.reach.reachability import Reachability

Effect = Literal["fails", "fails on a GPU", "wastes the GPU", "loses the model", "exposes a secret"]

EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(("DS144", "DS145", "DS147", "DS150", "DS153", "DS156"), "fails"),
    **dict.fromkeys(("IN101", "IN102", "IN103", "IN105", "IN106", "IN109", "SDK109"), "fails"),
    **dict.fromkeys(("FW101", "FW102", "FW104", "FW105", "FW108", "FW109", "FW110"), "fails"),
    **dict.fromkeys(
        (
            "SM105",
            "SM109",
            "SM113",
            "SM118",
            "SM124",
            "SM127",
            "SM128",
            "SM131",
            "SM135",
            "SM136",
            "E904",
            "E905",
            "E906",
            "DS105",
            "DS106",
            "DS111",
            "DS120",
            "DS123",
        ),
        "fails",
    ),
    **dict.fromkeys(
        ("E901", "E902", "IN104", "TF101", "TF104", "TF107", "TF111", "TF113", "TF114", "PF117"), "fails"
    ),
    **dict.fromkeys(("HF102", "HF104", "LT101", "PF157", "PT151"), "fails"),
    **dict.fromkeys(("PT126", "PT131", "PF139", "IO110", "IO115"), "fails"),
    **dict.fromkeys(("TF117", "TF120", "TF122", "TF127", "TF129"), "fails"),
    **dict.fromkeys(("PT102", "PT105", "PT112", "TF106"), "fails on a GPU"),
    **dict.fromkeys(
        ("PT101", "PT109", "PT150", "FW103", "CO105", "DS101", "DS102", "DS124"), "wastes the GPU"
    ),
    **dict.fromkeys(("PF135", "PF142", "IO114"), "wastes the GPU"),
    "SM101": "loses the model",
    "SE102": "exposes a secret",
}
"""What happens to a job with an error of these rules. Errors of other rules cost quality or time, or are about serving."""


class JobReach:
    """What one job certainly does.

    Args:
        has_gpu: whether it has a GPU; None if that is decided later.
        is_remote: whether it runs on a machine that is deleted when it ends.
    """

    def __init__(
        self, project: Project, job: JobDefinition, *, has_gpu: bool | None, is_remote: bool
    ) -> None:
        self._project = project
        self._job = job
        self._is_remote = is_remote
        counted = gpus_per_host(project, job)
        self._has_gpu = has_gpu if counted is None else counted > 0

    def settle(self, hit: Hit, log: ErrorLog) -> Hit:
        """The finding; an error that is not certain in this job as a warning."""
        if hit.finding.severity is not Severity.ERROR:
            return hit
        try:
            doubt = self._doubt(hit)
        except Exception as error:  # noqa: BLE001  # a bug here must not stop the job
            log.add(error, hit.span.unit.path, rule=hit.code)
            doubt = ""
        return hit if doubt is None else _as_warning(hit, doubt)

    def _doubt(self, hit: Hit) -> str | None:
        """Why an error does not stop the job, as a sentence or an empty text; None if it does."""
        effect = EFFECTS.get(hit.code)
        if effect is None:
            return ""
        if effect == "fails on a GPU" and not self._has_gpu:
            return "It only fails on a GPU, which this job does not request."
        if effect == "loses the model" and not self._is_remote:
            return "This run is local: the file stays in the folder of the run."
        # Findings about the job itself are on the first line of the script.
        if hit.span == self._job.span:
            return None
        reach = self._reachability
        if reach is None:
            # The script itself does not parse.
            return None
        return reach.import_doubt(hit.span.unit) if hit.code == "E901" else reach.doubt(hit.span)

    @cached_property
    def _reachability(self) -> Reachability | None:
        from gpuproof.linter.reach.reachability import Reachability  # only for a job with errors

        script = self._job.script
        return Reachability(script, has_gpu=self._has_gpu) if script is not None else None


def _as_warning(hit: Hit, doubt: str) -> Hit:
    message = f"{hit.finding.message} {doubt}".rstrip()
    return replace(hit, finding=replace(hit.finding, severity=Severity.WARNING, message=message))
