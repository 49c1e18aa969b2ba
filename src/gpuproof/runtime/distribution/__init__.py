"""Several processes: PyTorch's process group and collectives, TensorFlow's strategies and servers, addresses of hosts."""
