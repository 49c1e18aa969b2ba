import tensorflow as tf

print("GPUs:", len(tf.config.list_physical_devices("GPU")))
physical = tf.config.list_physical_devices("GPU")
if physical:
    try:
        for device in physical:
            tf.config.experimental.set_memory_growth(device, True)
        logical = tf.config.list_logical_devices("GPU")
        print(len(physical), "physical and", len(logical), "logical GPUs")
    except RuntimeError as error:
        print(error)
