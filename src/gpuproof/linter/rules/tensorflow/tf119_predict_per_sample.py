"""`model.predict` in a loop over single samples: each call builds a dataset and a loop of its own for one sample.

Keras's documentation says that `predict` is for large inputs outside of loops. Called for one sample at a time it takes tens of
milliseconds, nearly all of them on the CPU, while the GPU works for less than one; it also leaks memory slowly. One call with all samples
runs in batches; for a few samples, call the model itself: `model(x, training=False)`.

Bad:

    import keras
    import numpy as np

    model = keras.models.load_model("model.keras")
    images = np.load("images.npy")
    results = []
    for image in images:
        results.append(model.predict(np.expand_dims(image, 0)))  # <-

Bad:

    import tensorflow as tf

    model = tf.keras.models.load_model("model.keras")

    def score(rows):
        return [model.predict(row.reshape(1, -1))[0] for row in rows]  # <-

Bad: in a function that the loop calls

    import os
    import keras

    model = keras.models.load_model("model.keras")

    def classify(path):
        image = keras.utils.img_to_array(keras.utils.load_img(path))[None]
        return model.predict(image).argmax()  # <-

    for name in os.listdir("images"):
        print(name, classify(os.path.join("images", name)))

Good:

    import keras
    import numpy as np

    model = keras.models.load_model("model.keras")
    images = np.load("images.npy")
    results = model.predict(images, batch_size=64)

Quiet: a function for one request

    import keras
    import numpy as np

    model = keras.models.load_model("model.keras")

    def classify(image):
        return model.predict(np.expand_dims(image, 0)).argmax()

    print(classify(np.load("image.npy")))

Quiet: batches of a dataset, and other models

    import keras
    import numpy as np
    from sklearn.svm import SVC

    model = keras.models.load_model("model.keras")
    forest = SVC()
    for files in ["a.npy", "b.npy"]:
        batch = np.load(files)
        print(model.predict(batch), forest.predict(batch[:1]))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF119", "predict-per-sample", Severity.WARNING, needs=("predict",))

_LIVE = frozenset({"read", "recv", "input", "get_frame", "poll", "step", "reset"})
"""Calls of loops whose samples come one at a time: a camera, a queue, a game."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow", "keras") or is_test(module):
        return
    for call in calls_named(module, "predict"):
        if call.receiver is None or type_of(module, call.receiver).kind is not TypeKind.KERAS_MODEL:
            continue
        if not _is_single(module, call.expression("x", 0)) or not _is_looped(module, call.node):
            continue
        yield rule.hit(
            call.span,
            f"`{module.text(call.node.func)}` runs for one sample at a time: each call costs tens of milliseconds on the CPU.",
            remedy=f"Call it once for all samples, or call the model: {module.text(call.receiver)}(x, training=False).",
        )


def _is_looped(module: Module, call: ast.Call, depth: int = 0) -> bool:
    """Whether a loop or comprehension over stored samples repeats a call."""
    comprehension = module.enclosing(call, ast.ListComp, ast.GeneratorExp)
    if comprehension is not None and module.function_of(comprehension) is module.function_of(call):
        return True
    loops = module.loops_around(call)
    function = module.function_of(call)
    if not loops and function is not None and depth == 0:
        return any(_is_looped(site.module, site.call, 1) for site in known_call_sites(module, function))
    if not loops or not isinstance(loops[0], ast.For):
        return False
    return not any(
        isinstance(child, ast.Call) and callee_name(child) in _LIVE
        for loop in loops
        for child in ast.walk(loop)
    )


def _is_single(module: Module, node: ast.expr | None) -> bool:
    """Whether an input certainly has one sample."""
    made = module.origin(node)
    match made:
        case ast.Call(func=ast.Attribute(attr="expand_dims"), args=[_, axis, *_]):
            return evaluate(module, axis).number == 0
        case ast.Call(func=ast.Attribute(attr="expand_dims"), keywords=[ast.keyword(arg="axis", value=axis)]):
            return evaluate(module, axis).number == 0
        case ast.Call(func=ast.Attribute(attr="reshape"), args=[first, *_]):
            shape = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
            return isinstance(shape, ast.Constant) and shape.value == 1
        case ast.Subscript(
            slice=ast.Slice(
                lower=ast.Name(id=low),
                upper=ast.BinOp(left=ast.Name(id=high), op=ast.Add(), right=ast.Constant(value=1)),
            )
        ):
            return low == high
        case ast.Subscript(slice=ast.Tuple(elts=[first, *_])) | ast.Subscript(slice=first):
            is_none = isinstance(first, ast.Constant) and first.value is None
            return is_none or (module.qualified(first) or "").endswith(("newaxis",))
        case ast.Call(func=ast.Attribute(attr="array" | "asarray"), args=[ast.List(elts=[_]), *_]):
            return True
        case _:
            return False
