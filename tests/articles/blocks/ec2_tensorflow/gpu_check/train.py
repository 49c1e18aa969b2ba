import tensorflow as tf

print("GPUs:", len(tf.config.list_physical_devices("GPU")))
with tf.device("/GPU:0"):
    product = tf.constant([1.0, 2.0]) * tf.constant([3.0, 4.0])
print(product)
print("placed on", product.device)
