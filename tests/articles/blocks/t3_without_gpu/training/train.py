import numpy as np
import tensorflow as tf


def build():
    model = tf.keras.models.Sequential(
        [
            tf.keras.layers.Dense(10, activation="relu", input_shape=(784,)),
            tf.keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    model = build()
    model.fit(np.random.rand(1000, 784), np.random.randint(0, 2, 1000), epochs=5, verbose=0)
    model.save("digits.h5")

import sagemaker
from sagemaker.tensorflow import TensorFlow

estimator = TensorFlow(
    entry_point="train.py",
    role=sagemaker.get_execution_role(),
    instance_count=1,
    instance_type="ml.p3.2xlarge",
    framework_version="2.11",
    py_version="py39",
    output_path="s3://example-bucket/models",
    source_dir="./",
)
estimator.fit()
