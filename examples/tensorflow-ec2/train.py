"""Trains a small convolutional network on 1,797 handwritten digits, with Keras alone: nothing of GPUproof, nothing of AWS."""

import os

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

digits = load_digits()
images = (digits.images / 16).astype("float32")[..., None]
train_images, test_images, train_labels, test_labels = train_test_split(
    images, digits.target, test_size=360, stratify=digits.target, random_state=0
)
model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(
    train_images,
    train_labels,
    batch_size=64,
    epochs=5,
    validation_data=(test_images, test_labels),
    verbose=2,
)
# GPUproof and SageMaker keep what is in SM_MODEL_DIR; without them, this is the current folder.
model.save(f"{os.environ.get('SM_MODEL_DIR', '.')}/digits.keras")
