import tensorflow as tf

devices = tf.config.list_physical_devices("GPU")
if devices:
    try:
        for device in devices:
            tf.config.experimental.set_memory_growth(device, True)
        print("memory grows as needed")
    except RuntimeError as error:
        print(error)
else:
    print("there is no GPU")

product = tf.constant([1.0, 2.0]) * tf.constant([3.0, 4.0])
print(product, product.device)
