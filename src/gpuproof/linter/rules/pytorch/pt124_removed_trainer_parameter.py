"""A parameter that Lightning 2 removed from its Trainer: the script fails at that line with a TypeError.

Lightning 2.0 removed, among others, `gpus` and `auto_select_gpus` (now `accelerator="gpu", devices=`), `resume_from_checkpoint` (now
`fit(ckpt_path=)`) and `replace_sampler_ddp` (now `use_distributed_sampler`); 1.7 removed `progress_bar_refresh_rate`,
`weights_summary` and `checkpoint_callback`, and `fit` lost `train_dataloader=` (now `train_dataloaders=`). The parameters of
Trainer, its methods, ModelCheckpoint and EarlyStopping were read from the signatures of Lightning 1.5 to 2.6. It is an
error if the project pins a version without the parameter, and a warning if it pins no version.

Bad:

    # file: requirements.txt
    lightning>=2.5,<3
    # file: train.py
    import lightning as L

    trainer = L.Trainer(gpus=4, max_epochs=3)  # <-

Bad: no version is pinned

    import pytorch_lightning as pl

    trainer = pl.Trainer(accelerator="gpu", resume_from_checkpoint="last.ckpt")  # <-

Bad: gone since 1.7, and an argument of fit

    # file: requirements.txt
    pytorch-lightning==2.1.0
    # file: train.py
    import pytorch_lightning as pl
    from pytorch_lightning.callbacks import ModelCheckpoint
    from model import Net, loader

    trainer = pl.Trainer(
        max_epochs=3,
        progress_bar_refresh_rate=20,  # <-
        callbacks=[ModelCheckpoint(dirpath="/opt/ml/model", every_n_val_epochs=1)],  # <-
    )
    trainer.fit(Net(), train_dataloader=loader)  # <-

Good:

    import lightning as L

    trainer = L.Trainer(accelerator="gpu", devices=4, max_epochs=3)

Quiet: Lightning 1

    # file: requirements.txt
    pytorch-lightning==1.9.5
    # file: train.py
    import pytorch_lightning as pl

    trainer = pl.Trainer(gpus=4)

Quiet: a Trainer of the project

    from training import Trainer

    trainer = Trainer(gpus=4)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.argument_files import cli_trainers
from gpuproof.linter.knowledge.trainers.lightning import class_name, created, runs
from gpuproof.linter.knowledge.trainers.parameters import named_spans
from gpuproof.linter.knowledge.trainers.releases import library_versions, removal
from gpuproof.linter.knowledge.trainers.tables import members, replacement
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.span import Span

rule = Rule("PT124", "removed-trainer-parameter", Severity.ERROR, needs=("lightning",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    calls = [
        (call, str(class_name(call)))
        for call in created(module, "Trainer", "ModelCheckpoint", "EarlyStopping")
    ]
    if calls:
        calls += [(run.call, f"Trainer.{run.call.method}") for run in runs(module)]
    for call, owner in calls:
        yield from _removed(module, named_spans(call), owner, project)
    for settings in cli_trainers(module):
        spans = {str(name): value.span for name, value in settings.parts.items() if value.span is not None}
        yield from _removed(module, spans, "Trainer", project)


def _removed(module: Module, spans: dict[str, Span], owner: str, project: Project) -> Hits:
    known = members("lightning", owner)
    gone = [(name, known[name]) for name in spans if name in known and known[name].gone_in is not None]
    if not gone:
        return
    versions = library_versions(module, project, "lightning")
    for name, lifetime in gone:
        found = removal(lifetime, versions, "lightning")
        if found is None:
            continue
        instead = replacement("lightning", owner, name)
        yield rule.hit(
            spans[name],
            f"`{name}` is not a parameter of {owner} in {found.text}: TypeError.",
            remedy=f"Use {instead}." if instead else f"Remove {name}.",
            severity=rule.severity if found.certain else lowered(rule.severity),
        )
