import os

import keras
import tensorflow as tf
from keras import layers

LATENT = 100
OUT = os.environ.get("OUT", "samples")


def build_generator():
    return keras.Sequential([
        keras.Input((LATENT,)),
        layers.Dense(7 * 7 * 256, use_bias=False),
        layers.BatchNormalization(), layers.LeakyReLU(), layers.Reshape((7, 7, 256)),
        layers.Conv2DTranspose(128, 5, padding="same", use_bias=False), layers.BatchNormalization(), layers.LeakyReLU(),
        layers.Conv2DTranspose(64, 5, 2, padding="same", use_bias=False), layers.BatchNormalization(), layers.LeakyReLU(),
        layers.Conv2DTranspose(1, 5, 2, padding="same", activation="tanh"),
    ])


def build_discriminator():
    return keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(64, 5, 2, padding="same"), layers.LeakyReLU(), layers.Dropout(0.3),
        layers.Conv2D(128, 5, 2, padding="same"), layers.LeakyReLU(), layers.Dropout(0.3),
        layers.Flatten(), layers.Dense(1),
    ])


generator, discriminator = build_generator(), build_discriminator()
bce = keras.losses.BinaryCrossentropy(from_logits=True)
opt_g, opt_d = keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)


def train_step(real):
    noise = tf.random.normal((tf.shape(real)[0], LATENT))
    with tf.GradientTape() as tape_g, tf.GradientTape() as tape_d:
        fake = generator(noise, training=True)
        real_out = discriminator(real, training=True)
        fake_out = discriminator(fake, training=True)
        loss_g = bce(tf.ones_like(fake_out), fake_out)
        loss_d = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
    grad_g = tape_g.gradient(loss_g, generator.trainable_variables)
    grad_d = tape_d.gradient(loss_d, discriminator.trainable_variables)
    opt_g.apply_gradients(grad_g, generator.trainable_variables)
    opt_d.apply_gradients(zip(grad_d, discriminator.trainable_variables))
    return loss_g, loss_d


def main(epochs=50):
    (x, _), _ = keras.datasets.fashion_mnist.load_data()
    x = (x[..., None].astype("float32") - 127.5) / 127.5
    ds = tf.data.Dataset.from_tensor_slices(x).shuffle(60000).batch(256, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    for epoch in range(epochs):
        for batch in ds:
            loss_g, loss_d = train_step(batch)
        print(f"epoch {epoch} generator {float(loss_g):.3f} discriminator {float(loss_d):.3f}")
    os.makedirs(OUT, exist_ok=True)
    generator.save(os.path.join(OUT, "generator.keras"))


if __name__ == "__main__":
    main()
