"""`Dataset.from_generator` without the types of its elements is a TypeError.

A generator has no types that TensorFlow could see: one of `output_signature` and `output_types` is required. The call is often in the
code that runs after the data has been downloaded.

Bad:

    import tensorflow as tf

    def load(rows):
        ds = tf.data.Dataset.from_generator(lambda: iter(rows))  # <-
        return ds.batch(32).prefetch(tf.data.AUTOTUNE)

Good:

    import tensorflow as tf

    def load(rows):
        signature = tf.TensorSpec(shape=(4,), dtype=tf.float32)
        ds = tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=signature)
        return ds.batch(32).prefetch(tf.data.AUTOTUNE)

Quiet: the older parameter, and a dataset of another library

    import datasets
    import tensorflow as tf

    def load(rows):
        other = datasets.Dataset.from_generator(lambda: iter(rows))
        return tf.data.Dataset.from_generator(lambda: iter(rows), tf.float32), other
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IO115", "generator-without-signature", Severity.ERROR, needs=("from_generator",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_to(module, "tensorflow.data.Dataset.from_generator"):
        if call.argument("output_types", 1).is_absent and call.argument("output_signature").is_absent:
            yield rule.hit(
                call.span,
                "`from_generator` raises a TypeError: it needs output_signature, the types and shapes of the elements.",
                remedy="Pass output_signature=tf.TensorSpec(shape=..., dtype=...), in a tuple for several values.",
            )
