from tensorflow import keras


def vad(rate):
    return keras.Sequential(
        [
            keras.Input((rate,)),
            keras.layers.Reshape((rate, 1)),
            keras.layers.Conv1D(32, 64, 16, activation="relu"),
            keras.layers.Conv1D(64, 16, 4, activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
