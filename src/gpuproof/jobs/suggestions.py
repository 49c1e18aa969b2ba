"""Suggestions for misspelt names: the nearest known word, and what other tools call the keys of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuproof.util.spelling import nearest_words

KEY_ALIASES = {
    "args": "arguments",
    "base_job_name": "name",
    "channels": "inputs",
    "checkpoint_local_path": "checkpoint",
    "checkpoint_s3_uri": "checkpoint",
    "checkpoints": "checkpoint",
    "command": "entry_point",
    "default_bucket": "bucket",
    "enable_network_isolation": "network_isolation",
    "encrypt_inter_container_traffic": "encrypt_traffic",
    "env": "environment",
    "environment_variables": "environment",
    "execution_role": "role",
    "gpus": "gpu",
    "hyperparams": "hyperparameters",
    "image_uri": "image",
    "job_name": "name",
    "keep_alive_period_in_seconds": "keep_alive",
    "max_run": "max_duration",
    "max_runtime": "max_duration",
    "max_runtime_in_seconds": "max_duration",
    "max_wait_time_in_seconds": "max_wait",
    "metric_definitions": "metrics",
    "output_kms_key_id": "output_kms_key",
    "output_path": "output",
    "parameters": "hyperparameters",
    "params": "hyperparameters",
    "role_arn": "role",
    "script": "entry_point",
    "security_group_ids": "security_groups",
    "timeout": "max_duration",
    "training_image": "image",
    "training_job_name": "name",
    "use_spot_instances": "spot",
    "vcpus": "cpus",
    "volume_kms_key_id": "volume_kms_key",
    "volume_size_in_gb": "volume_size",
}
"""Names that the SageMaker SDK, its API and other tools use, and the key of a job for each."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` for the nearest known word, or an empty text if none is near."""
    words = list(known)
    plain = normalize_key(word)
    bynormalize_key = {normalize_key(name): name for name in words}
    if plain in bynormalize_key:
        return f"; did you mean '{bynormalize_key[plain]}'?"
    if KEY_ALIASES.get(plain) in words:
        return f"; did you mean '{KEY_ALIASES[plain]}'?"
    near = nearest_words(plain, bynormalize_key)
    return f"; did you mean '{bynormalize_key[near[0]]}'?" if near else ""


def normalize_key(word: str) -> str:
    """`InstanceType`, `instance-type` and `instanceType` all become `instance_type`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).replace("-", "_").replace(" ", "_").lower()
