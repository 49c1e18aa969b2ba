"""The Trainer is told to evaluate, and has no evaluation dataset, or the training dataset as one.

With `eval_strategy="epoch"` and no `eval_dataset`, newer versions of transformers raise a ValueError at once, older ones at the first
evaluation, after the epoch that is billed. With the training dataset as `eval_dataset`, metrics and the best model say nothing about
new data.

Bad:

    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
    from data import train_set

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    arguments = TrainingArguments("/opt/ml/model", eval_strategy="epoch", dataloader_num_workers=2)
    trainer = Trainer(model=model, args=arguments, train_dataset=train_set)  # <-
    trainer.train()

Bad: the training data

    from trl import SFTConfig, SFTTrainer
    from data import dataset

    trainer = SFTTrainer(
        model="Qwen/Qwen3-0.6B",
        args=SFTConfig("/opt/ml/model", eval_strategy="steps", eval_steps=100),
        train_dataset=dataset["train"],
        eval_dataset=dataset["train"],  # <-
    )

Good:

    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
    from data import train_set, test_set

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    arguments = TrainingArguments("/opt/ml/model", eval_strategy="epoch", dataloader_num_workers=2)
    trainer = Trainer(model=model, args=arguments, train_dataset=train_set, eval_dataset=test_set)
    trainer.train()

Quiet: set later, and a Trainer with its own loader

    from transformers import Trainer, TrainingArguments
    from data import model, train_set, test_set, loader

    class Own(Trainer):
        def get_eval_dataloader(self, eval_dataset=None):
            return loader

    arguments = TrainingArguments("/opt/ml/model", eval_strategy="epoch", dataloader_num_workers=2)
    own = Own(model=model, args=arguments, train_dataset=train_set)
    own.eval_dataset = test_set
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import is_same_variable
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.huggingface import (
    TrainerCall,
    arguments_of,
    evaluation_strategy,
    is_set_later,
    strategy_name,
    trainer_calls,
)
from gpuproof.linter.knowledge.trainers.releases import is_at_least
from gpuproof.linter.knowledge.trainers.tables import first_version
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF105", "evaluation-dataset", Severity.ERROR, needs=("Trainer",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module):
        return
    for trainer in trainer_calls(module):
        given = trainer.call.expression("eval_dataset", 4 if trainer.library == "transformers" else None)
        training = trainer.call.expression("train_dataset", 3 if trainer.library == "transformers" else None)
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            yield from _missing(module, project, trainer)
        elif training is not None and _is_same(module, training, given):
            yield rule.hit(
                module.span(given),
                f"{trainer.name} evaluates on `{module.text(given)}`, which it trains on: its metrics say nothing about new data.",
                remedy='Split it: dataset.train_test_split(test_size=0.1), and pass the "test" part.',
                severity=lowered(rule.severity),
            )


def _missing(module: Module, project: Project, trainer: TrainerCall) -> Hits:
    call = trainer.call
    if call.is_open or trainer.own is not None or len(call.node.args) > 4:
        return
    arguments = arguments_of(trainer)
    if (
        arguments is None
        or _is_set(module)
        or is_set_later(arguments, "eval_strategy", "evaluation_strategy")
    ):
        return
    strategy = evaluation_strategy(arguments)
    if not strategy.is_known or strategy.text not in ("epoch", "steps"):
        return
    at_once = is_at_least(module, project, "transformers", first_version("evaluation_dataset_checked"))
    yield rule.hit(
        call.span,
        f"{trainer.name} has no `eval_dataset`, and `{strategy_name(arguments)}` is {strategy.text!r}: ValueError.",
        remedy=f'Pass eval_dataset=, or {strategy_name(arguments)}="no".',
        # Older versions fail at the first evaluation, which a short training may never reach.
        severity=rule.severity if at_once == "yes" else _doubtful(strategy.text),
    )


def _doubtful(strategy: str | None) -> Severity:
    """The severity where the version may be an older one: it ends each epoch with an evaluation, which is certain."""
    return lowered(rule.severity) if strategy == "epoch" else Severity.NOTE


def _is_set(module: Module) -> bool:
    """Whether code sets `trainer.eval_dataset`."""
    return any(
        node.attr == "eval_dataset" and isinstance(node.ctx, ast.Store)
        for node in module.nodes(ast.Attribute)
    )


def _is_same(module: Module, training: ast.expr, given: ast.expr) -> bool:
    """Whether two expressions are the same dataset: the same variable, or the same part of it."""
    match training, given:
        case ast.Name(), ast.Name():
            return is_same_variable(module, training, given)
        case ast.Subscript(), ast.Subscript():
            return _is_same(module, training.value, given.value) and (
                isinstance(training.slice, ast.Constant) and ast.dump(training.slice) == ast.dump(given.slice)
            )
        case _:
            return False
