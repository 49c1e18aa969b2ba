"""Publishes a message to an SNS topic: text for e-mail and SMS, JSON for everything else that is subscribed.

Source: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import urlencode

from gpuproof.agent.notify.aws_request import find_credentials, signed_headers
from gpuproof.agent.notify.events import Message, NotSent

_TIMEOUT_S = 10.0
_LONGEST_SUBJECT = 99
_CODE = re.compile(rb"<Code>(\w+)</Code>")


def publish(topic: str, message: Message, environ: Mapping[str, str]) -> None:
    """Publish a message.

    Args:
        topic: its ARN, which names the region.
        environ: has credentials, or where to get them; and `AWS_ENDPOINT_URL_SNS` or `AWS_ENDPOINT_URL`, if SNS is elsewhere.

    Raises:
        NotSent: it was not published.
    """
    partition, region = topic.split(":")[1], topic.split(":")[3]
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    url = (
        environ.get("AWS_ENDPOINT_URL_SNS")
        or environ.get("AWS_ENDPOINT_URL")
        or f"https://sns.{region}.{suffix}"
    )
    credentials = find_credentials(environ)
    if credentials is None:
        raise NotSent("the host has no AWS credentials")
    document = json.dumps(message.document)
    body = urlencode(
        {
            "Action": "Publish",
            "Version": "2010-03-31",
            "TopicArn": topic,
            "Subject": message.subject.encode("ascii", "replace").decode()[:_LONGEST_SUBJECT],
            "MessageStructure": "json",
            "Message": json.dumps({"default": document, "email": message.text, "sms": message.text}),
            "MessageAttributes.entry.1.Name": "event",
            "MessageAttributes.entry.1.Value.DataType": "String",
            "MessageAttributes.entry.1.Value.StringValue": message.document["event"],
        }
    ).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    signed = signed_headers(credentials, "sns", region, url, body, headers)
    request = urllib.request.Request(f"{url.rstrip('/')}/", body, signed, method="POST")  # noqa: S310 - AWS's, or the user's own
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
            response.read()
    except urllib.error.HTTPError as error:
        found = _CODE.search(error.read(4096))
        code = found[1].decode() if found else f"status {error.code}"
        hint = (
            f"; the role needs sns:Publish (gpuproof iam policy --topic {topic})"
            if code in ("AuthorizationError", "AuthorizationErrorException", "AccessDenied")
            else ""
        )
        raise NotSent(f"SNS responded with {code}{hint}") from error
    except OSError as error:
        raise NotSent(f"SNS could not be reached: {getattr(error, 'reason', None) or error}") from error
