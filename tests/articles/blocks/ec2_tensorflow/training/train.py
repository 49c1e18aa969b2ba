import numpy as np
import tensorflow as tf

ROWS, FEATURES = 1000, 10
inputs = np.random.rand(ROWS, FEATURES).astype("float32")
targets = np.random.rand(ROWS, 1).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(FEATURES,))])
measure = tf.keras.losses.MeanSquaredError()
optimizer = tf.keras.optimizers.Adam(0.01)


@tf.function
def step(batch, wanted):
    with tf.GradientTape() as tape:
        loss = measure(wanted, model(batch))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(20):
    for start in range(0, ROWS, 32):
        loss = step(inputs[start : start + 32], targets[start : start + 32])
    print(f"epoch {epoch}: loss {loss.numpy():.4f}")
print("placed on", model(tf.constant(inputs[:32])).device)
