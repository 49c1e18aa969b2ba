import argparse
import time

import tensorflow as tf

COLUMNS = 40


def parse_row(line):
    values = tf.io.decode_csv(line, [[0.0]] * (COLUMNS + 1))
    return tf.stack(values[:-1]), values[-1]


def input_pipeline(cfg):
    files = tf.io.gfile.glob(cfg.files)
    dataset = tf.data.TextLineDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(cfg.buffer).map(parse_row, tf.data.AUTOTUNE)
    return dataset.batch(cfg.batch).prefetch(2)


def train_step(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.squeeze(model(x, training=True), -1) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


def main(cfg):
    model = tf.keras.Sequential(
        [tf.keras.Input((COLUMNS,)), tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(512, "relu"),
         tf.keras.layers.Dense(1)]
    )
    optimizer = tf.keras.optimizers.Adam(cfg.lr)
    dataset = input_pipeline(cfg)
    for epoch in range(cfg.epochs):
        start, mean = time.time(), tf.keras.metrics.Mean()
        for step, (x, y) in enumerate(dataset):
            mean.update_state(train_step(model, optimizer, x, y))
            if step % 1000 == 0:
                print(f"  step {step} loss {mean.result():.4f}")
        print(f"epoch {epoch} in {time.time() - start:.0f} s")
    model.save(cfg.out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", default="data/part-*.csv")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--buffer", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--out", default="regression.keras")
    main(parser.parse_args())
