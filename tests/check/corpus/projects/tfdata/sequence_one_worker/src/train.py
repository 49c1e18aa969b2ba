import argparse
import os
from pathlib import Path

import keras

from sequence import ImageMaskSequence


def unet():
    inputs = keras.Input((256, 256, 4))
    skips, x = [], inputs
    for width in (32, 64, 128):
        x = keras.layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Conv2D(256, 3, padding="same", activation="relu")(x)
    for width, skip in zip((128, 64, 32), reversed(skips)):
        x = keras.layers.Conv2DTranspose(width, 2, 2)(x)
        x = keras.layers.Concatenate()([x, skip])
        x = keras.layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, keras.layers.Conv2D(1, 1, activation="sigmoid")(x))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--tiles", type=Path, default=os.environ.get("SM_CHANNEL_TILES"))
    args, _ = parser.parse_known_args()
    files = sorted(Path(args.tiles).glob("*.npz"))
    held = len(files) // 10
    options = dict(max_queue_size=12)
    train = ImageMaskSequence(files[held:], 16, True, **options)
    valid = ImageMaskSequence(files[:held], 16, False, **options)
    model = unet()
    model.compile(keras.optimizers.Adam(1e-4), "binary_crossentropy", metrics=[keras.metrics.BinaryIoU([1])])
    model.fit(train, validation_data=valid, epochs=args.epochs)
    model.export(f"{os.environ['SM_MODEL_DIR']}/1")
