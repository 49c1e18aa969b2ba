"""`FilterLogEvents` with `logStreamNamePrefix`, as `aws logs tail` calls it; moto ignores the prefix and returns the lines of all streams."""

from __future__ import annotations

import json

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsRequest, AwsResponse, json_response

OPERATIONS = ("FilterLogEvents",)


def handle(context: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle `FilterLogEvents`: replace a prefix by the names of the matching streams."""
    document = request.document()
    prefix = document.pop("logStreamNamePrefix", None)
    if prefix is not None:
        logs = context.clients.get("logs", request.region)
        pages = logs.get_paginator("describe_log_streams").paginate(
            logGroupName=document.get("logGroupName", ""), logStreamNamePrefix=prefix
        )
        try:
            document["logStreamNames"] = [
                log_stream["logStreamName"] for page in pages for log_stream in page["logStreams"]
            ]
        except logs.exceptions.ResourceNotFoundException:
            pass  # moto reports it
        else:
            if not document["logStreamNames"]:
                return json_response(request, {"events": [], "searchedLogStreams": []})
        request = request.with_body(json.dumps(document).encode())
    return journal.handle(request, read_only=True)
