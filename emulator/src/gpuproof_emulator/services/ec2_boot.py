"""EC2's requests about instances that boot their user data (`gpuproof emulator --boot-instances`)."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from dataclasses import replace

from gpuproof_emulator.execution.instances.supervisor import InstanceSupervisor
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse, xml_response

_INSTANCE = re.compile(rb"<instanceId>(i-[0-9a-f]+)</instanceId>")
_ENDS = {"TerminateInstances": "terminated", "StopInstances": "stopped"}
_RECORDED = ("x-gpuproof-instances", "recorded")
_CANNOT = {
    "StartInstances": "cannot be started again: the disks of a stopped simulated instance are not kept",
    "RebootInstances": "cannot be restarted: a simulated instance boots once",
}


def handle(
    instances: InstanceSupervisor, operation: str, request: AwsRequest, forward: Callable[[], AwsResponse]
) -> AwsResponse:
    """Handle a request to EC2, and start or end machines with its instances.

    Args:
        forward: handles it without machines.

    Raises:
        AwsError: simulated instances do not allow it.
    """
    named = [value for name, value in request.form.items() if re.fullmatch(r"InstanceId(\.\d+)?", name)]
    known = [each for each in named if instances.knows(each)]
    if operation in _CANNOT and known:
        raise AwsError("UnsupportedOperation", f"{known[0]} {_CANNOT[operation]}.")
    if operation == "GetConsoleOutput" and known:
        return _console_output(instances, request, known[0])
    if operation == "RunInstances" and request.form.get("UserData"):
        _check_user_data(request.form["UserData"])
    with instances.lock:
        response = forward()
        if response.status != 200:
            return response
        if operation == "RunInstances" and request.form.get("UserData"):
            ids = [found.decode() for found in _INSTANCE.findall(b"".join(response.body))]
            instances.launch(request, ids)
        elif operation in _ENDS:
            instances.end(known, _ENDS[operation])
        elif operation in ("CreateTags", "DeleteTags"):
            instances.refresh_tags()
        return response


def mark_recorded(response: AwsResponse) -> AwsResponse:
    """The response of an emulator whose instances are recorded and do not boot: `gpuproof run --on ec2` reads the header."""
    return replace(response, headers=(*response.headers, _RECORDED))


def _check_user_data(encoded: str) -> None:
    """User data is a script, as cloud-init recognizes it: other formats would be ignored silently."""
    try:
        begins_as_script = base64.b64decode(encoded).startswith(b"#!")
    except ValueError as error:
        raise AwsError("InvalidUserData.Malformed", "User data is not in base64.") from error
    if not begins_as_script:
        raise AwsError("NotImplemented", "The emulator boots only user data that is a script (#!).")


def _console_output(instances: InstanceSupervisor, request: AwsRequest, instance_id: str) -> AwsResponse:
    output = base64.b64encode(instances.console(instance_id).encode()).decode()
    moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return xml_response(
        request,
        f"<GetConsoleOutputResponse><requestId>{request.request_id}</requestId><instanceId>{instance_id}</instanceId>"
        f"<timestamp>{moment}</timestamp><output>{output}</output></GetConsoleOutputResponse>",
    )
