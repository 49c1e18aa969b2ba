"""What a backend passes to the agent: its archive, and the job with its launcher, GPUs and settings."""
