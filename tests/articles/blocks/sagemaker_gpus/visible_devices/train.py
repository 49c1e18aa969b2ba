import tensorflow as tf

physical = tf.config.list_physical_devices("GPU")
if physical:
    print("there are GPUs")
    try:
        tf.config.set_visible_devices(physical[0], "GPU")
        tf.config.experimental.set_memory_growth(physical[0], True)
        logical = tf.config.list_logical_devices("GPU")
        print(len(physical), "physical and", len(logical), "logical GPUs")
    except RuntimeError as error:
        print(error)
else:
    print("there is no GPU")
