"""`dataset.shuffle(...)` as a statement changes nothing: datasets return a new dataset.

The methods of `tf.data` and of Hugging Face's datasets leave the dataset as it is. The data are then not shuffled, not batched, not filtered
or not tokenized, although the line is there.

Bad:

    import tensorflow as tf

    def load(files, parse):
        ds = tf.data.TFRecordDataset(files)
        ds.shuffle(1000)  # <-
        ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(32).prefetch(tf.data.AUTOTUNE)

Fixed:

    import tensorflow as tf

    def load(files, parse):
        ds = tf.data.TFRecordDataset(files)
        ds = ds.shuffle(1000)
        ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(32).prefetch(tf.data.AUTOTUNE)

Bad: Hugging Face

    from datasets import load_dataset

    def load(tokenize):
        data = load_dataset("imdb", split="train")
        data.map(tokenize, batched=True)  # <-
        return data

Good:

    import tensorflow as tf

    def load(files, parse):
        ds = tf.data.TFRecordDataset(files).shuffle(1000)
        ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(32).prefetch(tf.data.AUTOTUNE)

Quiet: the last line of a cell is shown

    # file: nb.ipynb
    # %%
    from datasets import load_dataset

    data = load_dataset("imdb", split="train")
    data.select(range(3))

Quiet: methods that change the object, and other objects

    import random
    from datasets import load_dataset

    names = ["a", "b"]
    random.shuffle(names)
    data = load_dataset("imdb", split="train")
    data.set_format("torch")
    data.push_to_hub("me/imdb")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.fixing.edits import wrap
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("IO118", "dataset-result-discarded", Severity.ERROR, needs=("tensorflow", "datasets"))

_OF_TENSORFLOW = (
    "shuffle", "batch", "map", "prefetch", "cache", "repeat", "filter", "take", "skip", "shard", "interleave", "unbatch",
    "padded_batch", "with_options", "concatenate",
)  # fmt: skip
_OF_HUGGING_FACE = (
    "map", "filter", "shuffle", "select", "sort", "train_test_split", "remove_columns", "rename_column", "cast_column",
    "with_format", "with_transform", "shard", "add_column", "class_encode_column",
)  # fmt: skip
_LOADED = re.compile(r"^datasets\.(load_dataset|load_from_disk|concatenate_datasets|Dataset\.from_\w+)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow", "datasets") or is_test(module):
        return
    for call in calls_named(module, *dict.fromkeys((*_OF_TENSORFLOW, *_OF_HUGGING_FACE))):
        receiver, statement = call.receiver, module.parent(call.node)
        if not isinstance(receiver, ast.Name) or not isinstance(statement, ast.Expr) or not _is_dataset(call):
            continue
        if _is_shown(module, statement):
            continue
        yield rule.hit(
            call.span,
            f"The result of `{module.text(call.node.func)}` is thrown away: `{receiver.id}` stays as it is.",
            remedy=f"Write {receiver.id} = {module.text(call.node.func)}(...).",
            fix=Fix("Assign it", wrap(module, call.node, f"{receiver.id} = ", "")),
        )


def _is_shown(module: Module, statement: ast.Expr) -> bool:
    """Whether a notebook shows the value, because it is the last one of its cell."""
    cell, _, _ = module.unit.file_position(statement.lineno, 1)
    if cell is None or module.function_of(statement) is not None:
        return False
    later = [other for other in module.tree.root.body if other.lineno > statement.lineno]
    return not later or module.unit.file_position(later[0].lineno, 1)[0] != cell


def _is_dataset(call: Call) -> bool:
    module, receiver = call.module, call.receiver
    if call.method in _OF_TENSORFLOW and type_of(module, receiver).kind is TypeKind.TF_DATASET:
        return True
    made = creations(module, receiver) if call.method in _OF_HUGGING_FACE else []
    return bool(made) and all(_LOADED.match(each.name or "") for each in made)
