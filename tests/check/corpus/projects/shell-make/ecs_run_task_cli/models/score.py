import sys

import numpy as np
import tensorflow as tf

model = tf.keras.models.load_model("/models/scorer.keras")
rows = np.load(sys.argv[1] if len(sys.argv) > 1 else "/models/rows.npy")
np.save("/models/scores.npy", model.predict(rows, batch_size=4096, verbose=0))
