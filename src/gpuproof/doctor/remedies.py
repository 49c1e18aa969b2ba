"""Remedies that several findings share."""

START_CONTAINER_WITH_GPUS = "Start the container with its GPUs: docker run --gpus all (needs the NVIDIA Container Toolkit on the host)."
