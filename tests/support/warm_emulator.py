"""Run by the fork server of emulators: imports what the emulator imports at its start and for its first requests."""

import functools
import os
import pkgutil
import threading
from importlib import import_module

import botocore.session
import moto.backends
from moto.moto_api._internal import mock_random

import gpuproof_emulator

botocore.session.create_loader = functools.cache(botocore.session.create_loader)

for module in pkgutil.walk_packages(gpuproof_emulator.__path__, "gpuproof_emulator."):
    if module.name != "gpuproof_emulator.testing" and not module.name.endswith("__main__"):
        import_module(module.name)
for service in ("cloudwatch", "ec2", "ecr", "iam", "logs", "s3", "ssm", "sts"):
    moto.backends.get_backend(service)
os.register_at_fork(after_in_child=mock_random.seed)  # each emulator has ids of its own
assert threading.active_count() == 1, "a process with threads cannot be forked safely"
