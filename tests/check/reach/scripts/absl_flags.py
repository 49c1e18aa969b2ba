"""Flags and app.run of absl."""

import tensorflow as tf
from absl import app, flags, logging

FLAGS = flags.FLAGS
flags.DEFINE_integer("epochs", 10, "Number of epochs.")
flags.DEFINE_float("learning_rate", 0.01, "Learning rate.")
flags.DEFINE_string("export_dir", None, "Where to export the model.")
flags.DEFINE_bool("use_tpu", False, "Whether to use a TPU.")


def build_model():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(FLAGS.learning_rate), loss="mse")
    return model


def main(argv):
    del argv
    if FLAGS.use_tpu:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
        strategy = tf.distribute.TPUStrategy(resolver)
    else:
        strategy = tf.distribute.get_strategy()
    with strategy.scope():
        model = build_model()
    data = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 8)), tf.zeros((64, 1)))).batch(8).prefetch(1)
    model.fit(data, epochs=FLAGS.epochs)
    logging.info("trained")
    if FLAGS.export_dir:
        model.export(FLAGS.export_dir)
    if FLAGS.epochs > 100:
        model.save("long_run.h5")


if __name__ == "__main__":
    app.run(main)
