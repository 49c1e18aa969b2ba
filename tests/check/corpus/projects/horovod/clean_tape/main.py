"""Horovod with a GradientTape: the variables are broadcast after the first step, once the optimizer has its own."""

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

(images, labels), _ = tf.keras.datasets.mnist.load_data(path=f"mnist-{hvd.rank()}.npz")
rows = tf.data.Dataset.from_tensor_slices((images[..., tf.newaxis] / 255.0, labels.astype("int64")))
rows = rows.shard(hvd.size(), hvd.rank()).repeat().shuffle(10_000).batch(128).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.Conv2D(64, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.4),
        tf.keras.layers.Dense(10),
    ]
)
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(0.001 * hvd.size())
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)


@tf.function
def step(batch, digits, first):
    with tf.GradientTape() as tape:
        loss = loss_object(digits, model(batch, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    if first:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables(), root_rank=0)
    return loss


for number, (batch, digits) in enumerate(rows.take(10_000 // hvd.size())):
    loss = step(batch, digits, number == 0)
    if number % 50 == 0 and hvd.local_rank() == 0:
        print(f"step {number} loss {float(loss):.4f}")
if hvd.rank() == 0:
    checkpoint.save("checkpoints/mnist")
