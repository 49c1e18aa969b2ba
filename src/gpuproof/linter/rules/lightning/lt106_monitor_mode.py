"""The callback keeps the worst model: the mode does not fit the metric that it monitors.

The default mode of ModelCheckpoint and EarlyStopping is "min". With `monitor="val_acc"` and no `mode="max"`, ModelCheckpoint keeps the
checkpoint with the lowest accuracy, and EarlyStopping ends the training once the accuracy rises: the run ends as completed,
with a model that is useless. The reverse, `mode="max"` for a loss, keeps the model with the largest loss. In transformers,
`greater_is_better=False` with `metric_for_best_model="accuracy"` does the same.

Bad:

    import lightning as L
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    callbacks = [
        ModelCheckpoint(dirpath="/opt/ml/model", monitor="val_acc", save_top_k=1),  # <-
        EarlyStopping("val_iou", patience=4),  # <-
        EarlyStopping(monitor="val_loss", mode="max"),  # <-
    ]
    trainer = L.Trainer(max_epochs=10, callbacks=callbacks)

Bad: the Trainer of transformers

    from transformers import TrainingArguments

    arguments = TrainingArguments(
        "/opt/ml/model", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
        metric_for_best_model="eval_f1", greater_is_better=False,  # <-
    )

Good:

    import lightning as L
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    callbacks = [
        ModelCheckpoint(dirpath="/opt/ml/model", monitor="val_acc", mode="max"),
        EarlyStopping(monitor="val_loss"),
    ]
    trainer = L.Trainer(max_epochs=10, callbacks=callbacks)

Quiet: the name says nothing, or both

    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    callbacks = [EarlyStopping(monitor="val_score"), ModelCheckpoint(monitor="f1_loss", dirpath="/opt/ml/model")]

Quiet: all checkpoints are kept

    from lightning.pytorch.callbacks import ModelCheckpoint

    checkpoint = ModelCheckpoint(dirpath="/opt/ml/model", monitor="val_acc", save_top_k=-1)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.lightning import class_name, created
from gpuproof.linter.knowledge.trainers.metric_names import better
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "LT106", "monitor-mode", Severity.WARNING, needs=("ModelCheckpoint", "EarlyStopping", "greater_is_better")
)

_ARGUMENTS = re.compile(r"^(transformers|trl)\.(\w+\.)*(\w*TrainingArguments|\w+Config)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in created(module, "ModelCheckpoint", "EarlyStopping"):
        owner = class_name(call)
        position = 0 if owner == "EarlyStopping" else 2
        name = call.argument("monitor", position)
        mode = call.argument("mode")
        kept = call.argument("save_top_k")
        if not name.is_known or not name.text or mode.is_unknown or len(call.node.args) > position + 1:
            continue
        if owner == "ModelCheckpoint" and not kept.is_absent and kept.number != 1 and (kept.number or 0) < 1:
            continue
        wanted, chosen = better(name.text), mode.text if not mode.is_absent else "min"
        if (
            wanted is None
            or chosen not in ("min", "max")
            or chosen == wanted
            or not (mode.is_absent or mode.is_known)
        ):
            continue
        written = call.expression("mode") or call.expression("monitor", position)
        effect = "keeps the worst checkpoint" if owner == "ModelCheckpoint" else "stops when it improves"
        yield rule.hit(
            module.span(written) if written is not None else call.span,
            f"{owner} {effect}: for `{name.text}`, {'higher' if wanted == 'max' else 'lower'} is better, "
            f"and mode is {'by default ' if mode.is_absent else ''}{chosen!r}.",
            remedy=f'Pass mode="{wanted}".',
        )
    if not module.mentions("greater_is_better"):
        return
    for call in all_calls(module):
        if not _ARGUMENTS.match(call.name or "") or "greater_is_better" not in call.keywords:
            continue
        name, flag = call.argument("metric_for_best_model"), call.argument("greater_is_better")
        wanted = better(name.text) if name.is_known and name.text else None
        if wanted is None or not flag.is_known or flag.flag is None or flag.flag == (wanted == "max"):
            continue
        yield rule.hit(
            module.span(call.keywords["greater_is_better"]),
            f"The worst checkpoint is kept: for `{name.text}`, {'higher' if wanted == 'max' else 'lower'} is better, "
            f"and greater_is_better is {flag.flag}.",
            remedy=f"Pass greater_is_better={wanted == 'max'}.",
        )
