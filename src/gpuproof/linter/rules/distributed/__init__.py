"""Several GPUs and hosts: rules DS."""
