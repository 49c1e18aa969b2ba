"""Plans and the runs that followed them: `gpuproof plan` stores its estimates, runs are compared with them, and later estimates
are corrected by the errors that were found. Everything stays on this machine, in the folder of runs."""
