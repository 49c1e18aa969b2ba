import keras
import tensorflow as tf


class Contrastive(keras.Model):
    """SimCLR: train_step is compiled by fit; no tf.function is needed here."""

    def __init__(self, encoder, dim=128, temperature=0.1):
        super().__init__()
        self.encoder = encoder
        self.head = keras.Sequential([keras.layers.Dense(dim, "relu"), keras.layers.Dense(dim)])
        self.temperature = temperature
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def call(self, x, training=False):
        return self.head(self.encoder(x, training=training), training=training)

    def train_step(self, data):
        a, b = data
        with tf.GradientTape() as tape:
            za = tf.math.l2_normalize(self(a, training=True), axis=1)
            zb = tf.math.l2_normalize(self(b, training=True), axis=1)
        logits = tf.matmul(za, zb, transpose_b=True) / self.temperature
        labels = tf.range(tf.shape(logits)[0])
        loss = tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            + keras.losses.sparse_categorical_crossentropy(labels, tf.transpose(logits), from_logits=True)
        )
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        )
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}
