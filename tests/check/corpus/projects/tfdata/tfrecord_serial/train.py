import argparse

import keras

from pipeline import make

parser = argparse.ArgumentParser()
parser.add_argument("--train", default="records/train-*.tfrecord")
parser.add_argument("--valid", default="records/valid-*.tfrecord")
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()

keras.mixed_precision.set_global_policy("mixed_float16")
base = keras.applications.ResNet50V2(include_top=False, weights=None, pooling="avg", input_shape=(224, 224, 3))
outputs = keras.layers.Dense(1000, dtype="float32", activation="softmax")(base.output)
model = keras.Model(base.input, outputs)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(make(args.train, 256, True), validation_data=make(args.valid, 256, False), epochs=args.epochs)
model.save("resnet.keras")
