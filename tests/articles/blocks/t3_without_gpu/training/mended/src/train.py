import os

import keras
import numpy as np

model = keras.Sequential(
    [
        keras.Input((784,)),
        keras.layers.Dense(10, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(np.random.rand(1000, 784), np.random.randint(0, 2, 1000), epochs=2, verbose=2)
model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))
