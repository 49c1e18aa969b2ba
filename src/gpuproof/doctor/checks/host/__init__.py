"""The host around the GPU: memory, disk, limits, cgroups, environment variables (D6xx)."""
