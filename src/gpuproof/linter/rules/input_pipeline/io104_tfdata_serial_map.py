"""By default `Dataset.map` processes one element at a time: a single CPU core feeds the GPU.

`num_parallel_calls=tf.data.AUTOTUNE` uses the other cores of the instance. The order of the elements is preserved
(`deterministic` is on by default). This matters most for decoding and augmenting images; a map that only selects
fields is not reported.

Bad:

    import tensorflow as tf

    def decode(path):
        return tf.io.decode_jpeg(tf.io.read_file(path))

    dataset = tf.data.Dataset.list_files("*.jpg").map(decode)  # <-

Fixed:

    import tensorflow as tf

    def decode(path):
        return tf.io.decode_jpeg(tf.io.read_file(path))

    dataset = tf.data.Dataset.list_files("*.jpg").map(decode, num_parallel_calls=tf.data.AUTOTUNE)

Bad: one call at a time, written out

    import tensorflow as tf

    def decode(path):
        return tf.io.decode_jpeg(tf.io.read_file(path))

    dataset = tf.data.Dataset.list_files("*.jpg").map(decode, num_parallel_calls=1)  # <-

Bad: in a function that gets the dataset

    import tensorflow as tf

    def decode(path):
        return tf.io.decode_jpeg(tf.io.read_file(path))

    def prepare(dataset, batch_size):
        return dataset.map(decode).batch(batch_size).prefetch(tf.data.AUTOTUNE)  # <-

Good:

    import tensorflow as tf

    def decode(path):
        return tf.io.decode_jpeg(tf.io.read_file(path))

    dataset = tf.data.Dataset.list_files("*.jpg").map(decode, num_parallel_calls=tf.data.AUTOTUNE)

Quiet: a Hugging Face dataset

    import tensorflow as tf
    from datasets import load_dataset

    dataset = load_dataset("imdb").map(lambda row: row.lower())

Quiet: nothing is computed

    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(([1], [2])).map(lambda x, y: (y, x))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.frameworks.tensorflow import tensorflow_alias, tensorflow_is_at_least
from gpuproof.linter.knowledge.frameworks.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("IO104", "tfdata-serial-map", Severity.WARNING, needs=(".map(",))

_MAX_CHAIN = 12


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module) or runs_without_gpu(module, project):
        return
    for call in calls_named(module, "map"):
        parallel = call.argument("num_parallel_calls", 1)
        # 1 and None are what it is without the argument.
        is_serial = parallel.is_absent or (parallel.is_known and parallel.value in (1, None))
        if call.receiver is None or not is_serial or not _computes(call):
            continue
        if type_of(module, call.receiver).kind is not TypeKind.TF_DATASET and not _is_in_pipeline(call):
            continue
        name = tensorflow_alias(module)
        fix = None
        if name is not None and parallel.is_absent and tensorflow_is_at_least(module, project, "2.4") != "no":
            edit = add_keyword(call, f"num_parallel_calls={name}.data.AUTOTUNE")
            fix = Fix("Pass num_parallel_calls", (edit,), safe=True)
        yield rule.hit(
            call.span,
            f"`map({module.excerpt(call.node.args[0], 40) if call.node.args else '…'})` processes one element at a time on one core.",
            remedy="Pass num_parallel_calls=tf.data.AUTOTUNE.",
            fix=fix,
        )


def _is_in_pipeline(call: Call) -> bool:
    """Whether the result of a call certainly is a dataset of tf.data: `.prefetch(...)` follows in the same expression."""
    node: ast.AST = call.node
    for _ in range(_MAX_CHAIN):
        attribute = call.module.parent(node)
        if not isinstance(attribute, ast.Attribute) or attribute.value is not node:
            return False
        outer = call.module.parent(attribute)
        if attribute.attr == "prefetch" or not isinstance(outer, ast.Call):
            return isinstance(outer, ast.Call)
        node = outer
    return False


def _computes(call: Call) -> bool:
    """Whether the mapped function calls anything; True if it is defined elsewhere."""
    function: ast.AST | None = call.expression("map_func", 0)
    if isinstance(function, (ast.Name, ast.Attribute)):
        found = find_definition(call.module, function)
        function = found.node if found is not None else None
    if not isinstance(function, (ast.Lambda, ast.FunctionDef)):
        return True
    return any(isinstance(node, ast.Call) for node in ast.walk(function))
