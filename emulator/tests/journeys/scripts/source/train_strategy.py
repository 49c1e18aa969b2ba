"""Adds numbers on several hosts with `MultiWorkerMirroredStrategy`, as scripts for SageMaker's TensorFlow images do."""

import json
import os

config = json.loads(os.environ.get("TF_CONFIG", "null"))
if config is None:
    print(json.dumps({"host": os.environ["SM_CURRENT_HOST"], "config": None}), flush=True)
else:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def shard(context: tf.distribute.InputContext) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(8).shard(context.num_input_pipelines, context.input_pipeline_id)
        return numbers.batch(4)

    @tf.function
    def step(batch: tf.Tensor) -> tf.Tensor:
        def replica(mine: tf.Tensor) -> tf.Tensor:
            mine = tf.reduce_sum(mine)
            return tf.stack([mine, tf.distribute.get_replica_context().all_reduce("sum", mine)])

        return strategy.run(replica, args=(batch,))

    ((mine, total),) = [step(batch).numpy() for batch in strategy.distribute_datasets_from_function(shard)]
    print(
        json.dumps(
            {"host": os.environ["SM_CURRENT_HOST"], "config": config, "mine": int(mine), "total": int(total)}
        ),
        flush=True,
    )
