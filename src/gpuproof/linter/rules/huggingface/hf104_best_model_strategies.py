"""`load_best_model_at_end` with evaluations and checkpoints at different times: TrainingArguments raises a ValueError.

The best model can only be loaded if each evaluation has its checkpoint: `eval_strategy` and `save_strategy` must be the same, and
with "steps", `save_steps` must be a multiple of `eval_steps`. By default nothing is evaluated and checkpoints are saved every 500
steps. `eval_steps` is `logging_steps` if it is not passed.

Bad:

    from transformers import TrainingArguments

    arguments = TrainingArguments(
        "/opt/ml/model", eval_strategy="epoch", load_best_model_at_end=True, num_train_epochs=3,  # <-
    )

Bad: no multiple

    from transformers import TrainingArguments

    arguments = TrainingArguments(
        "/opt/ml/model", eval_strategy="steps", eval_steps=200, save_steps=500, load_best_model_at_end=True,  # <-
    )

Good:

    from transformers import TrainingArguments

    arguments = TrainingArguments(
        "/opt/ml/model", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
    )

Quiet: the best one is saved, whenever it is

    from transformers import TrainingArguments

    arguments = TrainingArguments(
        "/opt/ml/model", eval_strategy="epoch", save_strategy="best", load_best_model_at_end=True,
    )

Quiet: strategies that are set elsewhere

    from transformers import TrainingArguments
    from settings import common

    arguments = TrainingArguments("/opt/ml/model", load_best_model_at_end=True, **common)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.trainers.huggingface import (
    Arguments,
    argument_sets,
    evaluation_strategy,
    is_set_later,
    strategy_name,
)
from gpuproof.linter.knowledge.trainers.releases import is_at_least
from gpuproof.linter.knowledge.trainers.tables import first_version
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "HF104",
    "best-model-strategies",
    Severity.ERROR,
    needs=("TrainingArguments", "SFTConfig", "DPOConfig", "HfArgumentParser", "TrlParser"),
)

_SAVE_STEPS = 500
"""The default of `save_steps`, and of `logging_steps` in TrainingArguments."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    for arguments in argument_sets(module, project):
        if is_at_least(module, project, "transformers", first_version("best_model_checked")) == "no":
            return
        best = arguments.get("load_best_model_at_end")
        if (
            not best.is_known
            or best.flag is not True
            or is_set_later(arguments, "eval_strategy", "save_strategy")
        ):
            continue
        problem = _problem(arguments)
        if problem is not None:
            what, remedy = problem
            yield rule.hit(
                arguments.where("load_best_model_at_end"),
                f"`load_best_model_at_end=True` with {what}: ValueError.",
                remedy=remedy,
            )


def _problem(arguments: Arguments) -> tuple[str, str] | None:
    evaluated = _text(evaluation_strategy(arguments), "no")
    saved = _text(arguments.get("save_strategy"), "steps")
    name = strategy_name(arguments)
    if evaluated is None or saved is None or saved == "best":
        return None
    if evaluated != saved:
        wanted = evaluated if evaluated != "no" else saved
        return (
            f"`{name}` {evaluated!r} and `save_strategy` {saved!r}",
            f'Pass {name}="{wanted}" and save_strategy="{wanted}".',
        )
    if evaluated != "steps":
        return None
    between = arguments.get("eval_steps")
    if between.is_unset and arguments.library == "transformers":
        between = arguments.get("logging_steps")
    every = _number(between)
    saves = _number(arguments.get("save_steps"))
    if every is None or saves is None or every < 1 or saves < 1 or saves % every == 0:
        return None
    return (
        f"`save_steps` {saves:g}, which is not a multiple of `eval_steps` {every:g}",
        f"Pass a save_steps that is a multiple of {every:g}.",
    )


def _text(value: Value, default: str) -> str | None:
    if value.is_absent:
        return default
    return value.text if value.is_known else None


def _number(value: Value) -> float | None:
    if value.is_unset:
        return _SAVE_STEPS
    return value.number if value.is_known else None
