"""The Trainer removes the columns that the collator or the transform reads: the first batch is a KeyError.

Before it collates, the Trainer of transformers drops every column that the model's `forward` does not take. A collator that tokenizes
`example["text"]` or a transform (`with_transform`) that decodes `example["image"]` then finds nothing: "KeyError: 'image'", after the
model was downloaded and prepared. `remove_unused_columns=False` keeps them.

Bad: a collator

    from transformers import AutoModelForImageClassification, Trainer, TrainingArguments
    from data import processor, train_set

    def collate(examples):
        batch = processor([example["image"] for example in examples], return_tensors="pt")
        batch["labels"] = [example["label"] for example in examples]
        return batch

    model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
    arguments = TrainingArguments("/opt/ml/model", num_train_epochs=3, dataloader_num_workers=4)
    trainer = Trainer(model=model, args=arguments, train_dataset=train_set, data_collator=collate)  # <-
    trainer.train()

Bad: a transform

    from datasets import load_dataset
    from transformers import AutoModelForImageClassification, Trainer, TrainingArguments
    from data import augment

    def transform(batch):
        return {"pixel_values": [augment(image) for image in batch["image"]], "labels": batch["label"]}

    dataset = load_dataset("beans", split="train").with_transform(transform)
    model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
    arguments = TrainingArguments("/opt/ml/model", num_train_epochs=3, dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=dataset).train()  # <-

Good:

    from transformers import AutoModelForImageClassification, Trainer, TrainingArguments
    from data import processor, train_set

    def collate(examples):
        batch = processor([example["image"] for example in examples], return_tensors="pt")
        batch["labels"] = [example["label"] for example in examples]
        return batch

    model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
    arguments = TrainingArguments("/opt/ml/model", remove_unused_columns=False, dataloader_num_workers=4)
    trainer = Trainer(model=model, args=arguments, train_dataset=train_set, data_collator=collate)
    trainer.train()

Quiet: the columns are inputs of the model, or of a model of the project

    import torch
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
    from data import train_set
    from nets import Own

    def collate(examples):
        return {"input_ids": torch.stack([example["input_ids"] for example in examples])}

    def collate_images(examples):
        return {"image": torch.stack([example["image"] for example in examples])}

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    arguments = TrainingArguments("/opt/ml/model", num_train_epochs=3, dataloader_num_workers=4)
    Trainer(model=model, args=arguments, train_dataset=train_set, data_collator=collate).train()
    Trainer(model=Own(), args=arguments, train_dataset=train_set, data_collator=collate_images).train()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.dataset_columns import RAW_COLUMNS, read_columns, transforms
from gpuproof.linter.knowledge.trainers.huggingface import (
    TrainerCall,
    arguments_of,
    is_set_later,
    trainer_calls,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("HF107", "columns-removed", Severity.ERROR, needs=("Trainer",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for trainer in trainer_calls(module):
        if (
            trainer.library != "transformers"
            or trainer.own is not None
            or not _is_of_library(module, trainer)
        ):
            continue
        found = _read(module, trainer)
        if found is None:
            continue
        what, columns = found
        arguments = arguments_of(trainer)
        if arguments is None or is_set_later(arguments, "remove_unused_columns"):
            continue
        kept = arguments.get("remove_unused_columns")
        if not (kept.is_absent or (kept.is_known and kept.flag is True)):
            continue
        names = ", ".join(f"`{column}`" for column in sorted(columns))
        yield rule.hit(
            trainer.call.span,
            f"The {what} reads {names}, which the Trainer removes before: KeyError.",
            remedy="Pass remove_unused_columns=False to TrainingArguments.",
        )


def _read(module: Module, trainer: TrainerCall) -> tuple[str, set[str]] | None:
    """The columns that the collator or the transform of a Trainer reads, and that no model takes."""
    collator = trainer.call.expression("data_collator", 2)
    columns = read_columns(module, collator) & RAW_COLUMNS
    if columns:
        return "collator", columns
    dataset = trainer.call.expression("train_dataset", 3)
    made = module.origin(dataset) if dataset is not None else None
    for call in transforms(module):
        columns = read_columns(module, call.expression("transform", 0)) & RAW_COLUMNS
        # Another dataset may be the one that is transformed, unless there is only one transform.
        if columns and (made is call.node or len(transforms(module)) == 1):
            return "transform", columns
    return None


def _is_of_library(module: Module, trainer: TrainerCall) -> bool:
    """Whether the model of a Trainer is one of transformers."""
    given = trainer.call.expression("model", 0)
    made = creations(module, given) if given is not None else []
    return bool(made) and all(
        (call.name or "").startswith("transformers.") and call.method == "from_pretrained" for call in made
    )
