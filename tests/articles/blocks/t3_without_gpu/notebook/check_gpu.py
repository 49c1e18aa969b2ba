import tensorflow as tf
import torch

if torch.cuda.is_available():
    print("PyTorch sees", torch.cuda.device_count(), "GPUs; the current one is", torch.cuda.current_device())
else:
    print("PyTorch sees no GPU")
if tf.config.list_physical_devices("GPU"):
    print("TensorFlow sees", tf.config.list_physical_devices("GPU"))
else:
    print("TensorFlow sees no GPU")
