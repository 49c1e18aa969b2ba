import argparse

from tensorflow.keras.applications import DenseNet121
from tensorflow.keras.callbacks import ModelCheckpoint
from tensorflow.keras.layers import Dense, GlobalAveragePooling2D
from tensorflow.keras.models import Model
from tensorflow.keras.optimizers import Adam
from tensorflow.keras.preprocessing.image import ImageDataGenerator


def generators(folder, size, batch):
    train = ImageDataGenerator(rescale=1 / 255.0, rotation_range=10, zoom_range=0.1, horizontal_flip=True)
    test = ImageDataGenerator(rescale=1 / 255.0)
    options = dict(target_size=(size, size), batch_size=batch, class_mode="binary")
    return (
        train.flow_from_directory(f"{folder}/train", **options),
        test.flow_from_directory(f"{folder}/val", shuffle=False, **options),
    )


def main(args):
    base = DenseNet121(include_top=False, weights="imagenet", input_shape=(args.size, args.size, 3))
    x = GlobalAveragePooling2D()(base.output)
    model = Model(base.input, Dense(1, activation="softmax")(x))
    model.compile(Adam(lr=args.lr), loss="binary_crossentropy", metrics=["accuracy"])
    train, val = generators(args.data, args.size, args.batch_size)
    model.fit_generator(
        train,
        steps_per_epoch=len(train),
        epochs=args.epochs,
        validation_data=val,
        callbacks=[ModelCheckpoint("best.keras", save_best_only=True)],
    )


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="chest_xray")
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=1e-4)
    main(p.parse_args())
