import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Model(...)
    model.compile(...)
    model.fit(...)
