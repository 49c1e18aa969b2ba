"""The models of what a `gpuproof.yaml` describes: one module for each kind of job, and those for the parts of a job."""
