from dataclasses import dataclass

import tensorflow as tf


@dataclass
class AudioData:
    folder: str
    batch: int = 32
    buffer: int = 2048
    rate: int = 16000

    def _read(self, path):
        audio, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1, desired_samples=self.rate)
        label = tf.strings.split(path, "/")[-2] == "speech"
        return tf.squeeze(audio, -1), tf.cast(label, tf.float32)

    def train(self):
        dataset = tf.data.Dataset.list_files(f"{self.folder}/train/*/*.wav")
        dataset = dataset.shuffle(self.buffer)
        dataset = dataset.map(self._read, num_parallel_calls=tf.data.AUTOTUNE)
        dataset = dataset.repeat()
        return dataset.batch(self.batch).prefetch(tf.data.AUTOTUNE)

    def valid(self):
        dataset = tf.data.Dataset.list_files(f"{self.folder}/valid/*/*.wav", shuffle=False)
        dataset = dataset.map(self._read)
        return dataset.batch(self.batch).cache().prefetch(tf.data.AUTOTUNE)
