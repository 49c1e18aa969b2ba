"""A parameter that no version of Lightning has: the script fails at that line with a TypeError.

It is misspelled (`max_epoch`), or belongs to another library: `save_best_only` and `restore_best_weights` are Keras's,
`early_stop_callback`, `distributed_backend` and `max_nb_epochs` are gone since Lightning 1.5 or longer. The parameters of
Trainer, its `fit`, `validate`, `test` and `predict`, ModelCheckpoint and EarlyStopping were read from the signatures of
Lightning 1.5 to 2.6. A type checker finds it, too, where Lightning is installed.

Bad:

    import lightning as L

    trainer = L.Trainer(accelerator="gpu", max_epoch=10)  # <-

Bad: an argument of Keras's callback

    from pytorch_lightning import Trainer
    from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint

    callbacks = [
        ModelCheckpoint(dirpath="/opt/ml/model", monitor="val_loss", save_best_only=True),  # <-
        EarlyStopping(monitor="val_loss", patience=3),
    ]
    trainer = Trainer(max_epochs=10, callbacks=callbacks)

Good:

    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint

    checkpoint = ModelCheckpoint(dirpath="/opt/ml/model", save_top_k=1)
    trainer = L.Trainer(accelerator="gpu", max_epochs=10, callbacks=[checkpoint])

Quiet: a Trainer of the project, and arguments that are passed on

    import lightning as L

    class Trainer(L.Trainer):
        def __init__(self, experiment, **rest):
            super().__init__(**rest)
            self.experiment = experiment

    trainer = Trainer(experiment="a", max_epochs=10)
"""

from gpuproof.findings import Severity
from gpuproof.jobs.suggestions import did_you_mean
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.argument_files import cli_trainers
from gpuproof.linter.knowledge.trainers.lightning import class_name, created, runs
from gpuproof.linter.knowledge.trainers.parameters import named_spans
from gpuproof.linter.knowledge.trainers.releases import library_versions
from gpuproof.linter.knowledge.trainers.tables import members, newest, replacement, takes_others, version
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

rule = Rule("LT101", "unknown-lightning-parameter", Severity.ERROR, needs=("lightning",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    calls = [
        (call, str(class_name(call)))
        for call in created(module, "Trainer", "ModelCheckpoint", "EarlyStopping")
    ]
    if calls:
        calls += [(run.call, f"Trainer.{run.call.method}") for run in runs(module)]
    for call, owner in calls:
        yield from _unknown(module, named_spans(call), owner, project)
    for settings in cli_trainers(module):
        spans = {str(name): value.span for name, value in settings.parts.items() if value.span is not None}
        yield from _unknown(module, spans, "Trainer", project)


def _unknown(module: Module, spans: dict[str, Span], owner: str, project: Project) -> Hits:
    known = members("lightning", owner)
    names = [name for name in spans if name not in known]
    if not names or not known or takes_others("lightning", owner):
        return
    versions = library_versions(module, project, "lightning")
    # Versions that are newer than the table may have it.
    if (
        versions is not None
        and versions.low is not None
        and versions.low > (*version(newest("lightning"))[:2], 99)
    ):
        return
    for name in names:
        instead = replacement("lightning", owner, name)
        yield rule.hit(
            spans[name],
            f"`{name}` is not a parameter of Lightning's {owner}: TypeError{'.' if instead else did_you_mean(name, known) or '.'}",
            remedy=f"Use {instead}." if instead else f"Remove {name}, or correct its name.",
        )
