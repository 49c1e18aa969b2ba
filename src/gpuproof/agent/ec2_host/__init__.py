"""What SageMaker does around a container, for a run on an EC2 instance: downloads, contract, logs, uploads, and the end.

User data starts `gpuproof-agent.pyz --ec2-host FILE`. The job itself runs as in SageMaker's container (`--container`).
"""
