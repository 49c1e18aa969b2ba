"""`RunInstances` with a client token, which moto stores without effect, and with an instance profile for several instances.

EC2 answers a repeated request that has the token of an earlier one with the instances of that one, so that a lost
response never launches twice: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
"""

from __future__ import annotations

import re
import threading
from urllib.parse import urlencode
from weakref import WeakKeyDictionary
from xml.etree import ElementTree

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse, xml_response

OPERATIONS = ("RunInstances",)

_VERSION = "2016-11-15"
_MOST = 1_000_000
_INSTANCE = re.compile(rb"<instanceId>(i-[0-9a-f]+)</instanceId>")
_NO_CAPACITY = (
    "We currently do not have sufficient {instance} capacity in the Availability Zone you requested. Our system will be working on "
    "provisioning additional capacity."
)
"""EC2's message, as https://github.com/iterative/cml/issues/814 quotes it."""

_lock = threading.Lock()
_launched: WeakKeyDictionary[Journal, dict[tuple[str, str], dict[str, str]]] = WeakKeyDictionary()
"""The parameters of each token's first request, by region and token; those before a restart are unknown."""


def handle(context: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle `RunInstances`.

    Raises:
        AwsError: a fault leaves no capacity, or a token was used with other parameters.
    """
    instance = request.form.get("InstanceType", "")
    if context.faults.trigger(
        ("capacity",), service="ec2", operation="RunInstances", instance=instance, region=request.region
    ):
        raise AwsError("InsufficientInstanceCapacity", _NO_CAPACITY.format(instance=instance), 500)
    token = request.form.get("ClientToken", "")
    if not token:
        return _launch(journal, request)
    with _lock:  # the second of two equal requests waits for the first
        reservation = _find_reservation(journal, request, token)
        known = _launched.setdefault(journal, {})
        if reservation is None:
            response = _launch(journal, request)
            if response.status == 200:
                known[request.region, token] = request.form
            return response
        if known.get((request.region, token), request.form) != request.form:
            message = f"The client token {token} was used before, in a request with other parameters."
            raise AwsError("IdempotentParameterMismatch", message)
        return xml_response(request, _launch_response(reservation))


def _launch(journal: Journal, request: AwsRequest) -> AwsResponse:
    """Launch instances, all of them with the instance profile: moto gives it to the first only."""
    response = journal.handle(request, read_only=False)
    profile = {name: value for name, value in request.form.items() if name.startswith("IamInstanceProfile.")}
    if response.status == 200 and profile:
        for instance in _INSTANCE.findall(b"".join(response.body))[1:]:
            words = {
                "Action": "AssociateIamInstanceProfile",
                "Version": _VERSION,
                "InstanceId": instance.decode(),
                **profile,
            }
            journal.handle(request.with_body(urlencode(words).encode()), read_only=False)
    return response


def _find_reservation(journal: Journal, request: AwsRequest, token: str) -> ElementTree.Element | None:
    """The reservation whose instances were launched with a token, without XML namespaces; None if there is none."""
    query = {"Action": "DescribeInstances", "Version": _VERSION, "MaxResults": str(_MOST)}
    response = journal.handle(request.with_body(urlencode(query).encode()), read_only=True)
    root = ElementTree.fromstring(b"".join(response.body))  # noqa: S314 - moto has written it
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for reservation in root.iterfind("reservationSet/item"):
        if reservation.findtext("instancesSet/item/clientToken") == token:
            return reservation
    return None


def _launch_response(reservation: ElementTree.Element) -> str:
    """A reservation of `DescribeInstances` as the response to `RunInstances`, which has the same members."""
    response = ElementTree.Element("RunInstancesResponse")
    response.extend(list(reservation))
    return ElementTree.tostring(response, encoding="unicode")
