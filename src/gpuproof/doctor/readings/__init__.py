"""Readings that several checks share: the GPUs as NVML reports them, the host, the kernel log, the EC2 instance."""
