"""`FilterLogEvents` with `logStreamNamePrefix`, as `aws logs tail` asks it: moto would tell every stream's lines."""

from __future__ import annotations

import json

from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.protocol import Answer, AwsRequest, json_answer

OPERATIONS = ("FilterLogEvents",)


def answer(emulator: Emulator, request: AwsRequest) -> Answer:
    """`FilterLogEvents`; a prefix becomes the names of the streams that have it."""
    document = request.document()
    prefix = document.pop("logStreamNamePrefix", None)
    if prefix is not None:
        logs = emulator.clients.get("logs", request.region)
        pages = logs.get_paginator("describe_log_streams").paginate(
            logGroupName=document.get("logGroupName", ""), logStreamNamePrefix=prefix
        )
        try:
            document["logStreamNames"] = [
                one["logStreamName"] for page in pages for one in page["logStreams"]
            ]
        except logs.exceptions.ResourceNotFoundException:
            pass  # moto says so
        else:
            if not document["logStreamNames"]:
                return json_answer(request, {"events": [], "searchedLogStreams": []})
        request = request.with_body(json.dumps(document).encode())
    return emulator.journal.answer(request, only_reads=True)
