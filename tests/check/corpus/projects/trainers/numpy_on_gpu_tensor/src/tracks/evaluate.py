import sys

import numpy as np

from tracks.predict import Predictor


def displacement(predicted, known):
    distances = np.linalg.norm(predicted - known, axis=-1)
    return distances.mean(), distances[:, -1].mean()


def main():
    predictor = Predictor(sys.argv[1])
    stored = np.load(sys.argv[2])
    predicted = np.concatenate([predictor(part) for part in np.array_split(stored["past"], 20)])
    average, final = displacement(predicted, stored["future"])
    print(f"average {average:.3f} m, final {final:.3f} m")


if __name__ == "__main__":
    main()
