"""What SageMaker does around a container, for a run on an EC2 instance: downloads, contract, logs, uploads, and the end.

User data arms a watchdog and starts `gpuproof-agent.pyz --ec2-host FILE`. Before the downloads it checks GPUs and driver (`setup/`, with
the checks of `gpu/checks/`); then it downloads code and inputs, runs the job as in SageMaker's container (`--container`, or
`docker run` for a job with an image), ships the log, uploads results, and reports to S3 (`boot.json`, `end.json`). The instance
shuts down, which terminates it.

Several hosts are instances of one launch with the same user data: each takes its name from its index in the launch (IMDS), writes
`address.json`, waits for those of the others, and fills `/etc/hosts` (`setup/cluster_hosts.py`).
"""
