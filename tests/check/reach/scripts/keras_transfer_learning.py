"""Fine-tunes a pretrained network and keeps the best epoch."""

import os

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

IMAGE_SIZE = (180, 180)
AUTOTUNE = tf.data.AUTOTUNE
data_dir = os.environ.get("DATA_DIR", "PetImages")
train_ds, val_ds = keras.utils.image_dataset_from_directory(
    data_dir, validation_split=0.2, subset="both", seed=1337, image_size=IMAGE_SIZE, batch_size=128
)
train_ds = train_ds.map(lambda x, y: (x / 255.0, y), num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
base = keras.applications.Xception(weights="imagenet", input_shape=(180, 180, 3), include_top=False)
base.trainable = False
inputs = keras.Input(shape=(180, 180, 3))
x = base(inputs, training=False)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(1)(layers.Dropout(0.2)(x))
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(1e-5),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(name="acc")],
)
callbacks = [
    keras.callbacks.ModelCheckpoint("save_at_{epoch}.keras"),
    keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True),
    keras.callbacks.TensorBoard(log_dir="./logs"),
]
model.fit(train_ds, epochs=25, callbacks=callbacks, validation_data=val_ds)
