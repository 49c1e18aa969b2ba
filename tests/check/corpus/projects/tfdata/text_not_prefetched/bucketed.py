"""Bucketed batches of token sequences: maps are vectorised after batching, the pipeline ends with prefetch."""
import argparse

import tensorflow as tf

BOUNDARIES = [32, 64, 128, 256]


def pipeline(pattern, vocabulary, training):
    files = tf.io.gfile.glob(pattern)
    lines = tf.data.TextLineDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        ),
        num_oov_buckets=1,
    )

    def parse(line):
        fields = tf.strings.split(line, "\t")
        return table.lookup(tf.strings.split(fields[1])), tf.strings.to_number(fields[0], tf.int64)

    data = lines.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not training)
    if training:
        data = data.shuffle(20_000)
    data = data.bucket_by_sequence_length(
        lambda ids, label: tf.size(ids), BOUNDARIES, [256, 128, 64, 32, 16], drop_remainder=training
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    return data.with_options(options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--valid", required=True)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    size = sum(1 for _ in open(args.vocabulary, encoding="utf-8")) + 1
    model = tf.keras.Sequential(
        [
            tf.keras.Input((None,), dtype="int64"),
            tf.keras.layers.Embedding(size, 200),
            tf.keras.layers.Bidirectional(tf.keras.layers.GRU(128)),
            tf.keras.layers.Dense(1),
        ]
    )
    model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["AUC"])
    model.fit(
        pipeline(args.train, args.vocabulary, True),
        validation_data=pipeline(args.valid, args.vocabulary, False),
        epochs=args.epochs,
    )
    model.save("bucketed.keras")


if __name__ == "__main__":
    main()
