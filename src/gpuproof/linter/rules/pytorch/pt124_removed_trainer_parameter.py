"""A parameter that Lightning 2 removed from its Trainer: the script fails at that line with a TypeError.

Lightning 2.0 removed, among others, `gpus` and `auto_select_gpus` (now `accelerator="gpu", devices=`), `resume_from_checkpoint` (now
`fit(ckpt_path=)`) and `replace_sampler_ddp` (now `use_distributed_sampler`). The list was read from the signatures of
pytorch-lightning 1.9.5 and 2.0.0. It is an error if the project pins Lightning 2, and a warning if it pins no version.

Bad:

    # file: requirements.txt
    lightning>=2.5,<3
    # file: train.py
    import lightning as L

    trainer = L.Trainer(gpus=4, max_epochs=3)  # <-

Bad: no version is pinned

    import pytorch_lightning as pl

    trainer = pl.Trainer(accelerator="gpu", resume_from_checkpoint="last.ckpt")  # <-

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

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("PT124", "removed-trainer-parameter", Severity.ERROR, needs=("Trainer",))

_TRAINER = re.compile(r"^(lightning|pytorch_lightning)\.(\w+\.)*Trainer$")
_PACKAGES = ("lightning", "pytorch-lightning")
_REMOVED = {
    "gpus": 'accelerator="gpu", devices=',
    "num_processes": 'accelerator="cpu", devices=',
    "tpu_cores": 'accelerator="tpu", devices=',
    "ipus": "devices=",
    "auto_select_gpus": 'devices="auto"',
    "resume_from_checkpoint": "fit(model, ckpt_path=)",
    "replace_sampler_ddp": "use_distributed_sampler=",
    "auto_lr_find": "Tuner(trainer).lr_find(model)",
    "auto_scale_batch_size": "Tuner(trainer).scale_batch_size(model)",
    "amp_backend": "precision=",
    "amp_level": "precision=",
    "track_grad_norm": "on_before_optimizer_step and grad_norm()",
    "multiple_trainloader_mode": "CombinedLoader(loaders, mode)",
}
"""Parameters of pytorch-lightning 1.9.5 that 2.0.0 does not have, and what replaces them.

Source: https://lightning.ai/docs/pytorch/stable/upgrade/from_1_9.html, 2026-11-28.
"""


@rule.module
def check(module: Module, _: Project) -> Hits:
    pins = pinned_versions(module.unit)
    pin = next((pins[package] for package in _PACKAGES if package in pins), "")
    if re.match(r"\s*(==|~=|<|<=)\s*1\.", pin) or re.search(r"<\s*2(\.0)?(\.0)?\s*(,|$)", pin):
        return
    for call in calls_named(module, "Trainer"):
        if not _TRAINER.match(call.name or ""):
            continue
        for name, instead in _REMOVED.items():
            if name not in call.keywords:
                continue
            yield rule.hit(
                module.span(call.keywords[name]),
                f"Lightning 2 removed `{name}` of Trainer: TypeError.",
                remedy=f"Use {instead}.",
                severity=rule.severity if re.search(r"(==|>=|~=|>)\s*[2-9]", pin) else lowered(rule.severity),
            )
