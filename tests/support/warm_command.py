"""Run by the fork server of `gpuproof`'s commands: imports what any command imports, and reads botocore's descriptions once."""

import functools
import pkgutil
import threading
from importlib import import_module

import boto3
import botocore.session

import gpuproof.account
import gpuproof.app
import gpuproof.backends
from gpuproof.cli.main import COMMANDS

# botocore parses the description of a service again for each session: a tenth of a second, half a second for EC2.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)

for command in COMMANDS.values():
    import_module(f"gpuproof.cli.{command.module}")
for package in (gpuproof.account, gpuproof.app, gpuproof.backends):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
for name in (
    "gpuproof.catalogue",
    "gpuproof.explain",
    "gpuproof.linter.preflight",
    "gpuproof.terminal.verdict",
):
    import_module(name)
session = boto3.Session("none", "none", region_name="us-east-1")
for service in ("cloudwatch", "ec2", "iam", "logs", "s3", "sagemaker", "scheduler", "sts"):
    session.client(service)
assert threading.active_count() == 1, "a process with threads cannot be forked safely"
