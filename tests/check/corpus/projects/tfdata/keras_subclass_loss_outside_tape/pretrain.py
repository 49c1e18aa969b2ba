import argparse

import keras

from model import Contrastive
from views import SIZE, pairs

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pattern")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=512)
    args = parser.parse_args()
    encoder = keras.applications.ResNet50(include_top=False, weights=None, pooling="avg", input_shape=(SIZE, SIZE, 3))
    model = Contrastive(encoder)
    model.compile(keras.optimizers.Adam(3e-4))
    model.fit(pairs(args.pattern, args.batch_size), epochs=args.epochs)
    encoder.save("encoder.keras")
