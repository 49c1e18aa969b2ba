"""`ssm:GetParameter` for the ids of AWS's Deep Learning AMIs, of which moto has none.

The parameters are those of the catalogue. Each stands for an image that the emulator registers on first use.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from gpuproof.catalogue.model import Ami
from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse, json_response, now

OPERATIONS = ("GetParameter",)
PREFIX = "/aws/service/deeplearning/"

_lock = threading.Lock()


def handle(context: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle `GetParameter`; parameters of other names are moto's."""
    name = str(request.document().get("Name", ""))
    if not name.startswith(PREFIX):
        return journal.handle(request, read_only=True)
    row = _rows().get(name)
    if row is None:
        raise AwsError("ParameterNotFound", f"The emulator has no parameter {name}.")
    with _lock:  # the second of two requests finds the image that the first one registers
        image = _image(context, request.region, row)
    parameter: dict[str, Any] = {
        "Name": name,
        "ARN": f"arn:aws:ssm:{request.region}::parameter{name}",
        "Type": "String",
        "DataType": "aws:ec2:image",
        "Value": image,
        "Version": 1,
        "LastModifiedDate": now(),
    }
    return json_response(request, {"Parameter": parameter})


@cache
def _rows() -> dict[str, Ami]:
    from gpuproof.catalogue.tables import Tables  # reads files, so only on first use

    return {row.ssm_parameter: row for row in Tables().amis if row.ssm_parameter}


def _image(context: Context, region: str, row: Ami) -> str:
    """The id of a row's image, which is registered if it does not exist."""
    ec2 = context.clients.get("ec2", region)
    date = (row.released or row.as_of).replace("-", "")
    name = f"{row.name_pattern.rstrip('* ')} {date}"
    found = ec2.describe_images(Owners=["self"], Filters=[{"Name": "name", "Values": [name]}])["Images"]
    if found:
        return found[0]["ImageId"]
    return ec2.register_image(
        Name=name,
        Description="An image of the emulator without content.",
        Architecture=row.arch,
        RootDeviceName="/dev/sda1",
    )["ImageId"]
