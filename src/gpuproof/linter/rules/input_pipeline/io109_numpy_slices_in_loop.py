"""Batches sliced from a NumPy array inside the training loop are copied to the GPU while it is idle.

Each step then waits for the slice, the conversion and the copy. A `tf.data` pipeline or a `DataLoader` prepares the
next batch during the current step. For small data it does not matter.

Bad:

    import numpy as np
    import tensorflow as tf

    features, labels = np.ones((100, 4)), np.ones(100)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    for start in range(0, len(features), 32):
        model.train_on_batch(features[start : start + 32], labels[start : start + 32])  # <-

Good:

    import numpy as np
    import tensorflow as tf

    features, labels = np.ones((100, 4)), np.ones(100)
    dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(32).prefetch(tf.data.AUTOTUNE)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit(dataset)

Quiet: the loop does not train

    import numpy as np
    import tensorflow as tf

    values = np.ones(100)
    for start in range(0, 100, 10):
        print(values[start : start + 10])

Quiet: the tensor is already on the GPU

    import torch

    features = torch.ones(100, 4).cuda()
    model = torch.nn.Linear(4, 1).cuda()
    for start in range(0, 100, 10):
        model(features[start : start + 10]).sum().backward()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import origin_call
from gpuproof.linter.analysis.flow.model import Source
from gpuproof.linter.analysis.flow.repeats import trains
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IO109", "numpy-slices-in-loop", Severity.NOTE, needs=("range(",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if (
        not module.imports("numpy", "torch", "tensorflow")
        or is_test(module)
        or runs_without_gpu(module, project)
    ):
        return
    for loop in module.nodes(ast.For):
        if not isinstance(loop.target, ast.Name) or not _steps(module, loop) or not trains(module, loop):
            continue
        cut = [node for node in module.nodes(ast.Subscript) if module.tree.is_within(node, loop)]
        cut = [
            node
            for node in cut
            if _is_slice_at(module, node, loop.target.id) and _is_array(module, node.value)
        ]
        if cut:
            yield rule.hit(
                module.span(cut[0]),
                f"`{module.text(cut[0])}` is sliced and copied in every step while the GPU waits.",
                remedy="Use tf.data.Dataset.from_tensor_slices(...).batch(...).prefetch(...) or a DataLoader.",
            )


def _steps(module: Module, loop: ast.For) -> bool:
    call = origin_call(module, loop.iter)
    return call is not None and call.method == "range" and len(call.node.args) == 3


def _is_slice_at(module: Module, node: ast.Subscript, name: str) -> bool:
    """Whether `data[start : start + 32]` is sliced at the loop's variable, or at such a slice of a permutation."""
    piece = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if isinstance(piece, ast.Name):
        piece = module.origin(piece) or piece
    if isinstance(piece, ast.Subscript):
        return _is_slice_at(module, piece, name)
    return isinstance(piece, ast.Slice) and isinstance(piece.lower, ast.Name) and piece.lower.id == name


def _is_array(module: Module, node: ast.expr) -> bool:
    """Whether an expression certainly comes from NumPy, wherever it is made."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    traced = sources(module, node)
    return traced.complete and bool(traced.found) and all(map(_is_from_numpy, traced.found))


def _is_from_numpy(source: Source) -> bool:
    home, value = source
    return any(
        (home.qualified(inner.func) or "").startswith("numpy.")
        for inner in ast.walk(value)
        if isinstance(inner, ast.Call)
    ) and not home.text(value).startswith(("torch.", "tf."))
