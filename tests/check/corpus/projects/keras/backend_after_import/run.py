import os
import sys

import keras

from nets import classifier

os.environ["KERAS_BACKEND"] = "torch"


def main(folder):
    train, valid = keras.utils.image_dataset_from_directory(
        folder, validation_split=0.2, subset="both", seed=9, image_size=(180, 180), batch_size=64
    )
    model = classifier(len(train.class_names))
    model.fit(train.prefetch(2), validation_data=valid.prefetch(2), epochs=20)
    model.save("mushrooms.keras")


if __name__ == "__main__":
    main(sys.argv[1])
