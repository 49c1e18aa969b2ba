"""SageMaker script mode with TensorFlow; bool hyperparameters as text."""

import argparse
import json
import os

import tensorflow as tf


def load(folder, batch_size):
    files = tf.data.Dataset.list_files(os.path.join(folder, "*.tfrecord"))
    return files.interleave(tf.data.TFRecordDataset, num_parallel_calls=4).batch(batch_size).prefetch(2)


def save_history(path, history):
    with open(path, "w") as out:
        json.dump({key: [float(value) for value in values] for key, values in history.history.items()}, out)


def main(args):
    model = tf.keras.Sequential([tf.keras.Input((32,)), tf.keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer=tf.keras.optimizers.Adam(args.learning_rate), loss="sparse_categorical_crossentropy")
    history = model.fit(load(args.train, args.batch_size), epochs=args.epochs, verbose=2)
    save_history(os.path.join(args.output_data_dir, "history.json"), history)
    if args.current_host == args.hosts[0]:
        model.export(os.path.join(args.sm_model_dir, "000000001"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--augment", type=bool, default=False)
    parser.add_argument("--train", type=str, default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--output-data-dir", default=os.environ.get("SM_OUTPUT_DATA_DIR"))
    parser.add_argument("--sm-model-dir", default=os.environ.get("SM_MODEL_DIR"))
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ.get("SM_HOSTS", '["algo-1"]')))
    parser.add_argument("--current-host", default=os.environ.get("SM_CURRENT_HOST", "algo-1"))
    main(parser.parse_args())
