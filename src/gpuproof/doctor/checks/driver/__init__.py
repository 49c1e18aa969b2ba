"""Layer 2: kernel module, NVML and CUDA initialization (D2xx)."""
