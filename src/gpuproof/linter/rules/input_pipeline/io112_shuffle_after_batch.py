"""`shuffle` after `batch` shuffles whole batches: the samples of a batch stay together in every epoch.

Each batch then has the same neighbours as in the file, which are often of one class, and the model sees the same batches again and
again. The buffer also holds that many batches instead of samples, in memory. TensorFlow's guide shuffles first.

Bad:

    import tensorflow as tf

    def load(x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y))
        return ds.batch(32).shuffle(1000).prefetch(tf.data.AUTOTUNE)  # <-

Bad: in several statements

    import tensorflow as tf

    def load(files, parse):
        ds = tf.data.TFRecordDataset(files)
        ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.batch(32)
        ds = ds.shuffle(buffer_size=1000)  # <-
        return ds.prefetch(tf.data.AUTOTUNE)

Good:

    import tensorflow as tf

    def load(x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y))
        return ds.shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE)

Quiet: unbatched in between, or shuffled before as well

    import tensorflow as tf

    def load(x, y, files):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).unbatch().shuffle(1000).batch(8)
        other = tf.data.TFRecordDataset(files).shuffle(1000).batch(32).cache().shuffle(10)
        return ds.prefetch(tf.data.AUTOTUNE), other.prefetch(tf.data.AUTOTUNE)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.tf_pipelines import read_pipeline, step_calls
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

rule = Rule("IO112", "shuffle-after-batch", Severity.WARNING, needs=("shuffle",))

_BATCHES = ("batch", "padded_batch", "ragged_batch")
_CHANGES = frozenset({"unbatch", "flat_map", "interleave", "window", "apply", "rebatch", "group_by_window"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module):
        return
    for call in step_calls(module, "shuffle"):
        pipeline = read_pipeline(module, call.receiver)
        last = pipeline.last(*_BATCHES)
        if last < 0 or not pipeline.is_complete:
            continue
        names = [step.method for step in pipeline.steps]
        # `batch` before a `map` may group the windows of a series.
        if "shuffle" in names or _CHANGES & set(names[last:]) or names.count(names[last]) > 1:
            continue
        function = getattr(call.node.func, "end_lineno", call.node.lineno)
        column = module.span(call.node.func).end_column - len("shuffle")
        yield rule.hit(
            Span(module.unit, function, column, function, column + len("shuffle")),
            f"`shuffle` after `{names[last]}` shuffles whole batches: their samples stay together in every epoch.",
            remedy=f"Call shuffle before {names[last]}.",
        )
