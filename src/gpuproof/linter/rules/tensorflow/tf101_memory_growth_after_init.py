"""Memory growth must be set before TensorFlow initializes the GPU; afterwards it raises a RuntimeError.

"Physical devices cannot be modified after being initialized" (TensorFlow's `context.py`). The first op, a
distribution strategy, or even `list_logical_devices` initializes it. The rule compares the order of calls at the top
level of a file, and in functions called there.

Bad:

    import tensorflow as tf

    start = tf.constant(1.0)
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)  # <-

Bad:

    import tensorflow as tf

    def setup():
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)  # <-

    strategy = tf.distribute.MirroredStrategy()
    setup()

Bad: within one function

    import tensorflow as tf

    def main():
        start = tf.zeros([1])
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)  # <-
        print(start)

    main()

Good:

    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    start = tf.constant(1.0)

Quiet: the op is in a function that runs later

    import tensorflow as tf

    def loss(x):
        return tf.reduce_sum(tf.constant(1.0) * x)

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)

Quiet: another entry point

    import tensorflow as tf

    if False:
        tf.constant(1.0)
    else:
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, local_function
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("TF101", "memory-growth-after-init", Severity.ERROR, needs=("set_memory_growth",))

_OPENS = (
    "tensorflow.constant",
    "tensorflow.zeros",
    "tensorflow.ones",
    "tensorflow.Variable",
    "tensorflow.range",
    "tensorflow.convert_to_tensor",
    "tensorflow.random.normal",
    "tensorflow.random.uniform",
    "tensorflow.matmul",
    "tensorflow.config.list_logical_devices",
    "tensorflow.config.experimental.list_logical_devices",
    "tensorflow.distribute.MirroredStrategy",
    "tensorflow.data.Dataset.from_tensor_slices",
    "tensorflow.data.Dataset.range",
    "tensorflow.eye",
    "tensorflow.fill",
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module) or runs_without_gpu(module, project):
        return
    grown = [
        candidate
        for candidate in calls_named(module, "set_memory_growth")
        if (candidate.name or "").startswith("tensorflow.")
    ]
    opened = [
        candidate
        for candidate in calls_to(module, *_OPENS)
        if not module.enclosing(candidate.node, ast.Lambda, ast.ClassDef)
    ]
    for call in grown:
        runs = _where_it_runs(module, call)
        before = [
            candidate
            for candidate in opened
            if (runs is not None and _is_before(module, candidate, runs))
            or _is_beside(module, candidate, call)
        ]
        if not before:
            continue
        first = min(before, key=lambda item: item.node.lineno)
        line = module.unit.file_position(first.node.lineno, 1)[1]
        guarded = module.enclosing(call.node, ast.Try) is not None
        yield rule.hit(
            call.span,
            f"`{module.text(first.node.func)}` in line {line} has already initialized the GPU: "
            + ("memory growth is silently not set." if guarded else "RuntimeError."),
            remedy="Set memory growth right after `import tensorflow`.",
            severity=lowered(rule.severity) if guarded else rule.severity,
        )


def _where_it_runs(module: Module, call: Call) -> ast.AST | None:
    """The top-level node at which a call runs: the call itself, or the only call of its function."""
    function = module.function_of(call.node)
    if function is None:
        return call.node
    calls = [
        candidate for candidate in calls_named(module, function.name) if local_function(candidate) is function
    ]
    if len(calls) != 1 or module.function_of(calls[0].node) is not None:
        return None
    return calls[0].node


def _is_beside(module: Module, opener: Call, grown: Call) -> bool:
    """Whether a call certainly runs before another one of the same function."""
    function = module.function_of(grown.node)
    if function is None or module.function_of(opener.node) is not function:
        return False
    if module.enclosing(opener.node, ast.If, ast.Try, ast.IfExp, ast.For, ast.While) is not None:
        return False
    return opener.node.lineno < grown.node.lineno


def _is_before(module: Module, opener: Call, grown: ast.AST) -> bool:
    if module.function_of(opener.node) is not None or module.enclosing(
        opener.node, ast.If, ast.Try, ast.IfExp
    ):
        return False
    return (opener.node.lineno, opener.node.col_offset) < (
        getattr(grown, "lineno", 0),
        getattr(grown, "col_offset", 0),
    )
