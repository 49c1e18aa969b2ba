"""Builds the on-start script with which a notebook instance checks its GPUs and stops when it is idle.

The script is the same for all notebook instances with the same settings, which share one lifecycle configuration. Its limits:
16,384 characters in base64 and 5 minutes. It therefore downloads GPUproof's agent, in the background, and checks its hash.

Sources: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateNotebookInstanceLifecycleConfig.html and
https://github.com/aws-samples/amazon-sagemaker-notebook-instance-lifecycle-config-samples (`auto-stop-idle`: Jupyter answers at
https://localhost:8443, the instance's name is in /opt/ml/metadata/resource-metadata.json).
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.backends.remote.s3_layout import notebook_agent_key, notebook_results

LONGEST = 16_384
"""Characters of a script in base64, from botocore's model of CreateNotebookInstanceLifecycleConfig."""

CONFIG_PREFIX = "gpuproof-notebook-"
_TEMPLATE = Path(__file__).parent / "data" / "on-start.sh"
_DIGITS = 16


@dataclass(frozen=True)
class LifecycleScript:
    """The on-start script of notebook instances.

    Args:
        bucket: from which they read the agent.
        agent_digest: SHA-256 of the agent's file, in hexadecimal.
        idle_timeout: seconds; None to never stop.
        expected_gpus: what instance types have, such as `1 A10G`, by type.
    """

    bucket: str
    agent_digest: str
    idle_timeout: int | None
    expected_gpus: Mapping[str, str]

    @property
    def agent_key(self) -> str:
        """The key of the agent's file in the bucket; unlike that of jobs, it does not expire."""
        return notebook_agent_key(self.agent_digest)

    @property
    def config_name(self) -> str:
        """The name of the lifecycle configuration: the same content has the same name."""
        return f"{CONFIG_PREFIX}{hashlib.sha256(self.text.encode()).hexdigest()[:_DIGITS]}"

    @property
    def text(self) -> str:
        """The script."""
        settings = {
            "BUCKET": self.bucket,
            "KEY": self.agent_key,
            "DIGEST": self.agent_digest,
            "IDLE_TIMEOUT": str(self.idle_timeout or 0),
        }
        cases = [
            f"        {shlex.quote(name)}) EXPECTED={shlex.quote(gpus)} ;;"
            for name, gpus in sorted(self.expected_gpus.items())
        ]
        return _TEMPLATE.read_text(encoding="utf-8").format(
            settings="\n".join(f"{name}={shlex.quote(value)}" for name, value in settings.items()),
            results=notebook_results(""),
            expectations="\n".join(cases) or "        *) ;;",
        )

    def encoded(self) -> str:
        """The script in base64, as the API takes it.

        Raises:
            ValueError: it is longer than the API allows.
        """
        encoded = base64.b64encode(self.text.encode()).decode()
        if len(encoded) > LONGEST:
            raise ValueError(f"the lifecycle script has {len(encoded)} characters, and {LONGEST} are allowed")
        return encoded


def is_own_config(name: str | None) -> bool:
    """Whether a lifecycle configuration is one of GPUproof's."""
    return name is not None and name.startswith(CONFIG_PREFIX)
