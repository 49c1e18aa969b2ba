"""A method that Lightning 2 removed from its Trainer: AttributeError.

`Trainer.tune` is now in `lightning.pytorch.tuner.Tuner`; `Trainer.add_argparse_args` and `Trainer.from_argparse_args` are gone. The methods were read from Lightning
1.5 to 2.6. It is an error if the project pins Lightning 2, and a note if it pins no version.

Bad:

    # file: requirements.txt
    lightning==2.5.0
    # file: train.py
    import lightning as L
    from model import Net, data

    trainer = L.Trainer(max_epochs=10)
    trainer.tune(Net(), datamodule=data)  # <-

Bad: arguments of the command line

    import argparse
    import pytorch_lightning as pl

    parser = argparse.ArgumentParser()
    parser = pl.Trainer.add_argparse_args(parser)  # <-
    trainer = pl.Trainer.from_argparse_args(parser.parse_args())  # <-

Good:

    import lightning as L
    from lightning.pytorch.tuner import Tuner
    from model import Net, data

    trainer = L.Trainer(max_epochs=10)
    Tuner(trainer).lr_find(Net(), datamodule=data)

Quiet: Lightning 1, and another tuner

    # file: requirements.txt
    pytorch-lightning==1.8.6
    # file: train.py
    import pytorch_lightning as pl
    from ray.tune import Tuner
    from model import Net, data

    trainer = pl.Trainer(max_epochs=10)
    trainer.tune(Net(), datamodule=data)
    Tuner(Net).tune()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.lightning import ROOTS, class_name
from gpuproof.linter.knowledge.trainers.releases import library_versions, removal, unsure
from gpuproof.linter.knowledge.trainers.tables import members, replacement
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT117", "removed-trainer-method", Severity.ERROR, needs=("lightning",))

_OWNER = "Trainer.methods"


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports(*ROOTS):
        return
    for name, lifetime in members("lightning", _OWNER).items():
        instead = replacement("lightning", _OWNER, name)
        if lifetime.gone_in is None or instead is None:
            continue
        for call in calls_named(module, name):
            if not _is_of_trainer(call):
                continue
            found = removal(lifetime, library_versions(module, project, "lightning"), "lightning")
            if found is None:
                continue
            yield rule.hit(
                call.span,
                f"Trainer has no `{name}` in {found.text}: AttributeError.",
                remedy=f"Use {instead}.",
                severity=rule.severity if found.certain else unsure(module, project, "lightning"),
            )


def _is_of_trainer(call: Call) -> bool:
    name = call.name or ""
    if name:
        return name.startswith(ROOTS) and name.endswith(f".Trainer.{call.method}")
    made = creations(call.module, call.receiver) if call.receiver is not None else []
    return len(made) == 1 and class_name(made[0]) == "Trainer"
