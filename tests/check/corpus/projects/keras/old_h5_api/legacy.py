import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.layers import LSTM, Dense, Embedding
from tensorflow.keras.preprocessing.sequence import pad_sequences

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
keras.backend.set_session(tf.Session(config=config))

MAXLEN, FEATURES = 80, 20000


def load():
    (x_train, y_train), (x_test, y_test) = keras.datasets.imdb.load_data(num_words=FEATURES)
    return (pad_sequences(x_train, MAXLEN), y_train), (pad_sequences(x_test, MAXLEN), y_test)


def build():
    model = keras.Sequential()
    model.add(Embedding(FEATURES, 128))
    model.add(LSTM(128, dropout=0.2))
    model.add(Dense(1, activation="sigmoid"))
    model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    train, test = load()
    model = build()
    model.fit(*train, batch_size=256, epochs=4, validation_data=test)
    predicted = model.predict_classes(test[0], batch_size=1024)[:, 0]
    print("errors:", int(np.sum(predicted != test[1])))
    model.save("imdb_lstm.keras")
