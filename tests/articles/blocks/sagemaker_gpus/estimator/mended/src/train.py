import argparse
import os

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--learning_rate", type=float, default=0.001)
arguments, _ = parser.parse_known_args()

model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.Adam(arguments.learning_rate), "mse")
model.fit(np.ones((64, 8)), np.ones((64, 1)), batch_size=arguments.batch_size, epochs=arguments.epochs)
model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))
