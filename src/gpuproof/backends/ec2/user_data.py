"""User data: the shell script with which an instance starts its job, and that powers it off whatever happens."""

from __future__ import annotations

import json
import shlex
from importlib import resources

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.errors import InvalidJob

LARGEST = 16 * 1024
"""Bytes of user data that EC2 accepts, before its encoding in base64:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html"""


def user_data(parameters: HostParameters) -> str:
    """Return the script for all hosts of a job: each learns from the metadata service which one it is.

    Its first lines start a watchdog, which does not depend on the rest of the script, on the clock, the disk or the network.

    Args:
        parameters: what the program on each instance has to know.

    Raises:
        InvalidJob: the job has so many inputs and outputs that the script would be too large.
    """
    template = resources.files(__package__ or "").joinpath("data", "user-data.sh").read_text(encoding="utf-8")
    bucket = f"s3://{parameters.bucket}/{parameters.prefix}"
    limits = _assignments(
        limit=str(max(1, round(parameters.max_duration))),
        silence=str(max(1, round(parameters.silence))),
        region=parameters.region,
        hosts=str(len(parameters.hosts)),
        hosts_uri=f"{bucket}hosts",
    )
    rest = _assignments(
        parameters=json.dumps(parameters.to_json(), separators=(",", ":")),
        retry_for=str(max(1, round(parameters.retry_for))),
        code_uri=f"{bucket}code/",
        agent_sha256=parameters.agent_sha256,
    )
    pythons = f"pythons=({' '.join(map(shlex.quote, parameters.pythons))})"
    script = template.replace("#@limits\n", limits).replace("#@parameters\n", f"{rest}{pythons}\n")
    size = len(script.encode())
    if size > LARGEST:
        raise InvalidJob(
            f"The job's inputs and outputs make user data of {size} bytes, and EC2 accepts {LARGEST}.",
            remedy="Put inputs that have a common prefix on S3 into one channel.",
        )
    return script


def _assignments(**variables: str) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())
