import logging

import tensorflow as tf

log = logging.getLogger(__name__)
train_loss = tf.keras.metrics.Mean()
train_acc = tf.keras.metrics.SparseCategoricalAccuracy()


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.optimizer = tf.keras.optimizers.AdamW(lr)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
        loss = self.loss_fn(y, logits)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        train_loss(loss)
        train_acc.update_state(y, logits)

    def fit(self, dataset, epochs):
        for epoch in range(epochs):
            for x, y in dataset:
                self.step(x, y)
            log.info("epoch %d loss %.4f accuracy %.4f", epoch, train_loss.result(), train_acc.result())
