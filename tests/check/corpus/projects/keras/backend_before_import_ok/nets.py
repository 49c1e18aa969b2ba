import keras
from keras import layers


def classifier(classes):
    inputs = keras.Input((180, 180, 3))
    x = layers.Rescaling(1 / 255)(inputs)
    for filters in (32, 64, 128, 256):
        x = layers.SeparableConv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, layers.Dense(classes, activation="softmax")(x))
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
