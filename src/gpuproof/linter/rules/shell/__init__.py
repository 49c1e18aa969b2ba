"""Shell, Slurm, Make: rules SH."""
