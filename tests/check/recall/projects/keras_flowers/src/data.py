"""The input pipeline: TFRecord files with JPEG images and their labels."""

import json
from pathlib import Path

import tensorflow as tf

FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def class_names(folder):
    return json.loads(Path(folder, "classes.json").read_text())


def load_split(folder, batch_size, image_size, shuffle):
    def decode(record):
        parsed = tf.io.parse_single_example(record, FEATURES)
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        return tf.image.resize(image, image_size), parsed["label"]

    def augment(image, label):
        return tf.image.random_flip_left_right(image), label

    files = tf.data.Dataset.list_files(f"{folder}/*.tfrecord", shuffle=shuffle)
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    images = records.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        images = images.shuffle(2048).map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(batch_size, drop_remainder=shuffle).prefetch(tf.data.AUTOTUNE)
