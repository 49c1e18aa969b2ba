"""The training loop leaves parameters as they are, as a trace of its first steps shows.

`gpuproof check --plan` runs the script for a few steps without a GPU. It sees which parameters get a gradient and which of these the
optimizer has: a loss that was detached from the model trains nothing, a layer that the loss does not depend on stays random, and one that
the optimizer does not have keeps its first values, although its gradients take time and memory.

Bad: the loss no longer depends on the model

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge",
    )
    # file: train.py
    import os

    import torch

    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = torch.tensor(model(torch.zeros(4, 8).cuda()).sum().item(), requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # <-
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g4dn.xlarge",
    )
    # file: train.py
    import os

    import torch

    frozen = torch.nn.Linear(8, 8).cuda().requires_grad_(False)
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = model(frozen(torch.zeros(4, 8).cuda())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.memory_plan import NotPlanned
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

if TYPE_CHECKING:
    from gpuproof.trace.document import Note

rule = Rule("PF131", "parameters-not-trained", Severity.WARNING, when="plan")

_DETACHED = "detached-loss"


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    try:
        plan = project.plan_memory(job)
    except NotPlanned:
        return
    for note in () if plan is None else plan.findings:
        span = _span(job, note)
        known = span is not job.span
        evidence = () if known or note.file is None else (f"{Path(note.file).name}, line {note.line}",)
        severity = Severity.ERROR if note.code == _DETACHED else rule.severity
        yield rule.hit(span, note.message, evidence=evidence, severity=severity)


def _span(job: JobDefinition, note: Note) -> Span:
    """The line of the script, or the job if it is in another file."""
    unit = job.script.unit if job.script is not None else None
    if unit is None or note.file is None or note.line is None or unit.absolute != Path(note.file):
        return job.span
    return Span(unit, note.line, 1, note.line, 1)
