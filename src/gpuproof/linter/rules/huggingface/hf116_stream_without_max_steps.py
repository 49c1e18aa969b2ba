"""The Trainer trains on a streamed dataset without `max_steps`: ValueError.

A dataset that is loaded with `streaming=True` has no length, so that the Trainer cannot tell how many steps an epoch has: "args.max_steps must be set to a
positive value if dataloader does not have a length". `num_train_epochs` does not help.

Bad:

    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import collator, tokenize

    stream = load_dataset("HuggingFaceFW/fineweb-edu", split="train", streaming=True)
    stream = stream.map(tokenize, batched=True).shuffle(seed=0, buffer_size=1000)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    arguments = TrainingArguments("/opt/ml/model", num_train_epochs=1, dataloader_num_workers=2)
    trainer = Trainer(model=model, args=arguments, train_dataset=stream, data_collator=collator)  # <-
    trainer.train()

Good:

    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import collator, tokenize

    stream = load_dataset("HuggingFaceFW/fineweb-edu", split="train", streaming=True)
    stream = stream.map(tokenize, batched=True).shuffle(seed=0, buffer_size=1000)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    arguments = TrainingArguments("/opt/ml/model", max_steps=10_000, dataloader_num_workers=2)
    Trainer(model=model, args=arguments, train_dataset=stream, data_collator=collator).train()

Quiet: a part of it, as a list

    from datasets import Dataset, load_dataset
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import collator

    stream = load_dataset("HuggingFaceFW/fineweb-edu", split="train", streaming=True)
    rows = Dataset.from_list(list(stream.take(1000)))
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    arguments = TrainingArguments("/opt/ml/model", num_train_epochs=1, dataloader_num_workers=2)
    Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator).train()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.huggingface import arguments_of, trainer_calls
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("HF116", "stream-without-max-steps", Severity.ERROR, needs=("streaming",))

_SAME = frozenset(
    {"map", "filter", "shuffle", "take", "skip", "remove_columns", "rename_column", "rename_columns", "select_columns", "cast",
     "cast_column", "with_format", "set_format", "shard"}
)  # fmt: skip
"""Methods of a streamed dataset that return another one."""
_MAX_STEPS = 12


@rule.module
def check(module: Module, _: Project) -> Hits:
    for trainer in trainer_calls(module):
        dataset = trainer.call.expression("train_dataset", 3 if trainer.library == "transformers" else None)
        if dataset is None or trainer.own is not None or not _is_streamed(module, dataset):
            continue
        arguments = arguments_of(trainer)
        if arguments is None:
            continue
        steps = arguments.get("max_steps")
        if not (steps.is_absent or (steps.is_known and steps.number is not None and steps.number <= 0)):
            continue
        yield rule.hit(
            trainer.call.span,
            f"`{module.text(dataset)}` is streamed and has no length, and `max_steps` is not set: ValueError.",
            remedy="Pass max_steps= to the arguments.",
        )


def _is_streamed(module: Module, node: ast.expr) -> bool:
    """Whether a dataset certainly is streamed, through its own methods and its splits."""
    for _ in range(_MAX_STEPS):
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        if isinstance(node, ast.Name):
            bindings = module.reaching(node)
            if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
                return False
            node = bindings[0].value
            continue
        call = origin_call(module, node)
        if call is None:
            return False
        if call.name == "datasets.load_dataset":
            value = call.argument("streaming")
            return value.is_known and value.flag is True
        if call.receiver is None or call.method not in _SAME:
            return False
        node = call.receiver
    return False
