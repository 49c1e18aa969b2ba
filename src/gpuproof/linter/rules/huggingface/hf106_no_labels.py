"""The batches have no labels: the model returns no loss, and the Trainer raises a ValueError at its first step.

"The model did not return a loss from the inputs" comes after the model was downloaded and the data was prepared. Models of transformers
compute a loss only if they get `labels`. The rule reports Trainers whose columns are chosen without one (`set_format(columns=[...])`,
`map(..., remove_columns=dataset.column_names)` with a function that returns none), and language models whose project never names labels and
uses no collator that makes them.

Bad: the label is called stars

    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained("FacebookAI/roberta-base")
    rows = Dataset.from_csv("reviews.csv").map(lambda row: tokenizer(row["text"], truncation=True, padding="max_length"))
    rows.set_format("torch", columns=["input_ids", "attention_mask", "stars"])
    model = AutoModelForSequenceClassification.from_pretrained("FacebookAI/roberta-base", num_labels=5)
    arguments = TrainingArguments("/opt/ml/model", dataloader_num_workers=4)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()  # <-

Bad: a language model

    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    rows = load_dataset("text", data_files="notes.txt", split="train")
    rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512))
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    arguments = TrainingArguments("/opt/ml/model", dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=rows).train()  # <-

Bad: a language model, of whose dataset no column is kept

    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    rows = load_dataset("wikitext", "wikitext-2-raw-v1", split="train")
    rows = rows.map(lambda row: tokenizer(row["text"], max_length=512), remove_columns=rows.column_names)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    arguments = TrainingArguments("/opt/ml/model", dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=rows).train()  # <-

Good:

    from datasets import load_dataset
    from transformers import (
        AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments,
    )

    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    rows = load_dataset("text", data_files="notes.txt", split="train")
    rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512))
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    arguments = TrainingArguments("/opt/ml/model", dataloader_num_workers=4)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator).train()

Quiet: labels, and a dataset that may have them

    from datasets import load_from_disk
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer, TrainingArguments

    rows = load_from_disk("/opt/ml/input/data/train")
    rows.set_format("torch", columns=["input_ids", "attention_mask", "label"])
    model = AutoModelForSequenceClassification.from_pretrained("FacebookAI/roberta-base", num_labels=5)
    arguments = TrainingArguments("/opt/ml/model", dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=rows).train()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.huggingface import TrainerCall, trainer_calls
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("HF106", "no-labels", Severity.ERROR, needs=("Trainer",))

_LABELS = re.compile(r"labels?(_ids)?$|^mc_labels|start_positions|class_labels", re.IGNORECASE)
_LANGUAGE = re.compile(
    r"^transformers\.(\w+\.)*(AutoModelForCausalLM|AutoModelForMaskedLM|AutoModelForSeq2SeqLM|\w+LMHeadModel)\."
)
_HEADS = re.compile(r"^transformers\.(\w+\.)*(AutoModelFor\w+|\w+For\w+|\w+LMHeadModel)\.from_pretrained$")
_PADS = re.compile(
    r"^transformers\.(\w+\.)*(DataCollatorWithPadding|default_data_collator|DefaultDataCollator)$"
)
_OPAQUE = re.compile(r"(^|\.)(load_from_disk|load_dataset_builder|from_generator)$")
_LIBRARIES = frozenset(
    {"transformers", "datasets", "evaluate", "accelerate", "peft", "huggingface_hub", "bitsandbytes"}
)
"""Libraries whose use is seen: they make labels where the script says so."""
_READY = ("text", "csv", "json", "parquet")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for trainer in trainer_calls(module):
        if trainer.library != "transformers" or trainer.own is not None or trainer.call.is_open:
            continue
        if not _has_plain_collator(module, trainer):
            continue
        given = trainer.call.expression("model", 0)
        models = creations(module, given) if given is not None else []
        if len(models) != 1 or not _HEADS.match(models[0].name or ""):
            continue
        why = _chosen_columns(module, trainer) or _language_model(module, models[0])
        if why is None:
            continue
        runs = [call for call in calls_named(module, "train") if _is_of(module, call, trainer)]
        yield rule.hit(
            (runs[0] if runs else trainer.call).span,
            f"{why}: the model returns no loss, and the Trainer raises a ValueError.",
            remedy=_remedy(models[0]),
        )


def _has_plain_collator(module: Module, trainer: TrainerCall) -> bool:
    """Whether the collator of a Trainer makes no labels."""
    written = trainer.call.expression("data_collator", 2)
    if written is None or (isinstance(written, ast.Constant) and written.value is None):
        return "compute_loss_func" not in trainer.call.keywords
    call = origin_call(module, written)
    name = (call.name if call is not None else module.qualified(written)) or ""
    return _PADS.match(name) is not None


def _chosen_columns(module: Module, trainer: TrainerCall) -> str | None:
    """The columns of `set_format`, if none of them is a label."""
    if trainer.call.expression("train_dataset", 3) is None:
        return None
    formats = calls_named(module, "set_format", "with_format")
    chosen = [
        call.argument("columns", 1)
        for call in formats
        if "columns" in call.keywords or len(call.node.args) > 1
    ]
    if not chosen or len(chosen) != len(formats):
        return None
    listed: list[str] = []
    for value in chosen:
        if value.items is None or not all(item.is_known and item.text for item in value.items):
            return None
        names = [str(item.text) for item in value.items]
        if any(_LABELS.search(name) for name in names):
            return None
        listed = listed or names
    if any(
        _LABELS.search(call.module.text(call.node))
        for call in calls_named(module, "rename_column", "rename_columns")
    ):
        return None
    return (
        f"The columns {', '.join(listed)} have no labels"
        if "input_ids" in listed or "pixel_values" in listed
        else None
    )


def _language_model(module: Module, model: Call) -> str | None:
    """Whether the program tokenizes texts for a language model and never names labels."""
    if not _LANGUAGE.match(model.name or ""):
        return None
    modules = local_modules(module)
    if not _LIBRARIES.issuperset(unseen_imports(module)):
        return None
    for local in modules:
        if uses(local, _LABELS, "string", "keyword", "attribute", "name") or uses(local, _OPAQUE, "call"):
            return None
        # A dataset of the Hub may have the column, unless all of its columns are removed.
        for call in calls_named(local, "load_dataset"):
            if call.argument("path", 0).text not in _READY and not _removes_all(local):
                return None
    if not any(
        calls_named(local, "load_dataset", "from_dict", "from_csv", "from_pandas", "from_list")
        for local in modules
    ):
        return None
    return "Nothing in the project makes labels"


def _removes_all(module: Module) -> bool:
    """Whether each `map` of a module removes all columns that were there: `remove_columns=dataset.column_names`."""
    maps = [call for call in calls_named(module, "map") if call.receiver is not None]
    given = [call.expression("remove_columns") for call in maps]
    return bool(maps) and all(
        isinstance(node, ast.Attribute) and node.attr == "column_names" for node in given
    )


def _remedy(model: Call) -> str:
    if _LANGUAGE.match(model.name or ""):
        return "Pass data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False), which makes them."
    return 'Name the column of the targets "labels", and keep it.'


def _is_of(module: Module, call: Call, trainer: TrainerCall) -> bool:
    return call.receiver is not None and any(
        made.node is trainer.call.node for made in creations(module, call.receiver)
    )
