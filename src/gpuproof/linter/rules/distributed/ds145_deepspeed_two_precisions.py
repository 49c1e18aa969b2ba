"""DeepSpeed's settings enable both fp16 and bf16, which it refuses: "bfloat16 and fp16 modes cannot be simultaneously enabled".

The assertion fails in `deepspeed.initialize()`, when the GPUs are already paid for. On A100, H100 and newer, bf16 needs no loss
scaling and is the one to keep.
Source: `DeepSpeedConfig` of deepspeed 0.18.

Bad:

    # file: ds_config.json
    {
      "train_micro_batch_size_per_gpu": 8,
      "fp16": {"enabled": true},
      "bf16": {"enabled": true}  # <-
    }

Bad: in Python

    import deepspeed
    import torch

    config = {
        "train_micro_batch_size_per_gpu": 8,
        "fp16": {"enabled": True, "loss_scale": 0},
        "bf16": {"enabled": True},  # <-
    }
    engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 1), config=config)

Good:

    # file: ds_config.json
    {
      "train_micro_batch_size_per_gpu": 8,
      "fp16": {"enabled": false},
      "bf16": {"enabled": true}
    }

Quiet: chosen by the Trainer

    # file: ds_config.json
    {
      "train_micro_batch_size_per_gpu": 8,
      "fp16": {"enabled": "auto"},
      "bf16": {"enabled": "auto"}
    }
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.distribution.deepspeed import settings_of_file, settings_of_script
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("DS145", "deepspeed-two-precisions", Severity.ERROR, needs=("deepspeed",), kinds=("deepspeed",))


@rule.unit
def check_file(unit: Unit, _: Project) -> Hits:
    settings = settings_of_file(unit)
    if settings is not None:
        yield from _both(settings)


@rule.module
def check_script(module: Module, _: Project) -> Hits:
    for settings in settings_of_script(module):
        yield from _both(settings)


def _both(settings: Value) -> Hits:
    name = "bf16" if not settings.at("bf16").is_absent else "bfloat16"
    flags = [settings.at(key, "enabled") for key in ("fp16", name)]
    span = settings.at(name).span or settings.at("fp16").span
    if span is None or not all(flag.is_known and flag.flag is True for flag in flags):
        return
    yield rule.hit(
        span,
        "fp16 and bf16 are both enabled: DeepSpeed rejects the settings at start-up.",
        remedy="Enable one of them: bf16 on A100, H100 and newer, fp16 on older GPUs.",
    )
