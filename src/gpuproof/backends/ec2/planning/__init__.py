"""Decisions made before anything is created: instance types, machine image, zones, quota, volume, profile, network.

The Deep Learning AMI is the one (by its Systems Manager parameter, else by its name) whose framework, architecture, kernel module and
driver suit the GPU; if no AMI has the framework's version, the host makes an environment with uv (`own_environment.py`). A type that
lacks an AMI, a zone with a subnet, or quota is left out with the reason; if none is left, nothing is created. Where the user may not
look, EC2 decides at the launch.

`regions.py` does this for each region of the job at the same time. Only instances and their security groups are outside the job's own
region, and `Aws.in_region` is the client for them.
"""
