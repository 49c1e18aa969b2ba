"""The container of a SageMaker job, as SageMaker's own configuration files describe it.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAINING, PROCESSING = "training", "processing"
_CONFIGS = {TRAINING: "input/config/resourceconfig.json", PROCESSING: "config/resourceconfig.json"}
_ROOT = "/opt/ml"
_BASE = "SAGEMAKER_BASE_DIR"
"""Variable of AWS's training toolkit for another folder than `/opt/ml`."""


@dataclass(frozen=True)
class SageMakerContainer:
    """The container in which this process runs.

    Args:
        kind: `TRAINING` or `PROCESSING`.
        job: name of the job; empty if it is unknown.
        host: of this container, such as `algo-1`.
        hosts: of the job.
        base: the folder of SageMaker's contract.
        instance_type: such as `ml.g5.xlarge`; `None` on other machines (the SDK's local mode).
    """

    kind: str
    job: str
    host: str
    hosts: tuple[str, ...]
    base: Path
    instance_type: str | None = None


def find_container(environment: Mapping[str, str]) -> SageMakerContainer | None:
    """The container of this process; `None` if SageMaker did not start it.

    Args:
        environment: the container's variables.
    """
    base = Path(environment.get(_BASE) or _ROOT)
    for kind, name in _CONFIGS.items():
        config = _read_object(base / name)
        host = config.get("current_host")
        if isinstance(host, str) and host:
            job = environment.get(f"{kind.upper()}_JOB_NAME", "")
            return SageMakerContainer(kind, job, host, _hosts(config, host), base, _instance_type(config))
    return None


def _instance_type(config: Mapping[str, Any]) -> str | None:
    name = config.get("current_instance_type")
    return name if isinstance(name, str) and name.startswith("ml.") else None


def _hosts(config: Mapping[str, Any], host: str) -> tuple[str, ...]:
    hosts = config.get("hosts")
    return tuple(map(str, hosts)) if isinstance(hosts, list) and hosts else (host,)


def _read_object(file: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
