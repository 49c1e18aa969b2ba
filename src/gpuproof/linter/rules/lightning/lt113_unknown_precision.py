"""Lightning does not know this precision: the Trainer raises a ValueError.

Precisions are 16, 32, 64 and "bf16", and since Lightning 2.0 "16-mixed", "bf16-mixed", "32-true" and "64-true", since 2.1 "16-true" and "bf16-true".
"fp16", "float16" and "mixed" are names of other libraries; `precision="16-mixed"` is unknown to Lightning 1.

Bad:

    import lightning as L

    trainer = L.Trainer(accelerator="gpu", precision="fp16")  # <-

Bad: Lightning 1

    # file: requirements.txt
    pytorch-lightning==1.9.5
    # file: train.py
    import pytorch_lightning as pl

    trainer = pl.Trainer(accelerator="gpu", precision="bf16-mixed")  # <-

Good:

    import lightning as L

    trainer = L.Trainer(accelerator="gpu", precision="16-mixed")

Quiet: a plugin, and a value that is chosen elsewhere

    import lightning as L
    from settings import precision, plugin

    trainer = L.Trainer(accelerator="gpu", precision=precision)
    other = L.Trainer(accelerator="gpu", plugins=[plugin])
"""

from functools import cache
from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.jobs.suggestions import did_you_mean
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.lightning import created
from gpuproof.linter.knowledge.trainers.releases import is_at_least
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.csv_table import read_rows

rule = Rule("LT113", "unknown-precision", Severity.ERROR, needs=("lightning",))

_SAME = {
    "fp16": "16-mixed",
    "float16": "16-mixed",
    "half": "16-mixed",
    "bfloat16": "bf16-mixed",
    "mixed": "16-mixed",
    "fp32": "32-true",
}


@rule.module
def check(module: Module, project: Project) -> Hits:
    for call in created(module, "Trainer"):
        value = call.argument("precision")
        if not value.is_known or not isinstance(value.value, (str, int)):
            continue
        name = str(value.value)
        since = _precisions().get(name)
        if since is not None and is_at_least(module, project, "lightning", since) != "no":
            continue
        meant = _SAME.get(name.lower())
        allowed = [
            known
            for known, first in _precisions().items()
            if is_at_least(module, project, "lightning", first) != "no"
        ]
        yield rule.hit(
            value.span or call.span,
            f"`precision={value.value!r}` is unknown to {'this version of ' if since else ''}Lightning: ValueError"
            f"{'.' if meant is not None else did_you_mean(name, allowed) or '.'}",
            remedy=f'Use "{meant}".' if meant in allowed else f"Use one of {', '.join(allowed)}.",
        )


@cache
def _precisions() -> dict[str, str]:
    """The precisions, each with the first version that has it."""
    path = Path(__file__).parents[2] / "data" / "lightning_precisions.csv"
    return {row["precision"]: row["since"] for row in read_rows(path)}
