import logging

import tensorflow as tf

from trainer import Trainer


def speech_model(labels):
    return tf.keras.Sequential(
        [
            tf.keras.Input((124, 129, 1)),
            tf.keras.layers.Resizing(32, 32),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.Conv2D(64, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(labels),
        ]
    )


def spectrogram(audio, label):
    audio = tf.squeeze(audio, -1)
    spec = tf.abs(tf.signal.stft(audio, 255, 128))
    return spec[..., None], label


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    ds = tf.keras.utils.audio_dataset_from_directory("mini_speech_commands", batch_size=64, output_sequence_length=16000)
    names = ds.class_names
    ds = ds.map(spectrogram, num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(1000).prefetch(tf.data.AUTOTUNE)
    model = speech_model(len(names))
    Trainer(model, 1e-3).fit(ds, epochs=10)
    model.save("commands.keras")
