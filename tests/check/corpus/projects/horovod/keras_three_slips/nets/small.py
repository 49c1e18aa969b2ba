from tensorflow import keras
from tensorflow.keras import layers


def small_net(classes, size=128):
    return keras.Sequential(
        [
            layers.Input((size, size, 3)),
            layers.Conv2D(32, 3, 2, activation="relu"),
            layers.Conv2D(64, 3, 2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(classes, activation="softmax"),
        ]
    )
