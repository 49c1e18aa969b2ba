"""The way of one request: read, perhaps struck by a fault, answered by whoever owns it, written down."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from gpuproof.emulator import admin_api
from gpuproof.emulator.clients import USER_AGENT
from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.faults.fault import AT_REQUEST, Fault
from gpuproof.emulator.faults.responses import refusal
from gpuproof.emulator.operations import OPERATIONS
from gpuproof.emulator.operations.call import Call
from gpuproof.emulator.protocol import Answer, AwsError, AwsRequest, json_answer, json_error, xml_error
from gpuproof.emulator.routing import Named, is_s3, named
from gpuproof.emulator.service_model import fitted, operation_model, validate
from gpuproof.emulator.services import resource_tagging
from gpuproof.emulator.services.dispatch import side_answer

_REMEMBERED = 100_000
_DOCTYPE = len("<!doctype html>")
_SDK_MARKS = ("sagemaker-python-sdk", "md/sagemaker", "sagemaker/")
_WAITER = "B"  # botocore's mark of a waiter among a user agent's features: botocore/useragent.py


class Application:
    """The emulator as a WSGI application.

    Args:
        emulator: everything there is.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._requests: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if not admin_api.from_this_machine(environ):
            start_response("403 Forbidden", [("Content-Length", "0")])
            return []
        if environ.get("PATH_INFO", "").startswith(admin_api.PREFIX):
            answer = admin_api.answer(self._emulator, AwsRequest.read(environ), self._requests)
        else:
            answer = self._answered(environ)
        start_response(f"{answer.status} {_phrase(answer.status)}", list(answer.headers))
        return answer.body

    def _answered(self, environ: dict[str, Any]) -> Answer:
        request = AwsRequest.read(environ)
        what = named(request)
        if USER_AGENT in request.user_agent:
            return self._route(request, what)
        note = self._remember(request, what)
        fault = self._emulator.faults.strike(
            AT_REQUEST, service=what.service, operation=what.operation, name=_name(request)
        )
        try:
            answer = self._struck(request, what, fault)
        except AwsError as error:
            answer = self._refused(request, what, error)
        note["status"] = answer.status
        note["seconds"] = round(time.time() - note["time"], 3)
        return answer

    def _struck(self, request: AwsRequest, what: Named, fault: Fault | None) -> Answer:
        if fault is None:
            return self._route(request, what)
        if fault.kind == "drop":
            if fault.when == "after":
                self._route(request, what)
            raise _dropped(request)
        if fault.kind == "slow":
            time.sleep(fault.seconds)
            return self._route(request, what)
        raise refusal(fault, request, what)

    def _route(self, request: AwsRequest, what: Named) -> Answer:
        try:
            if request.target[0] == "SageMaker":
                return self._sagemaker(request, what.operation)
            if what.service == "sagemaker-runtime":
                return self._emulator.endpoints.invoke(request)
            if what.operation == "GetResources" and request.target[0].startswith("ResourceGroupsTagging"):
                return resource_tagging.answer(self._emulator, request)
            if (answer := side_answer(self._emulator, request, what)) is not None:
                return answer
            return self._motos(request, what)
        except AwsError as error:
            return self._refused(request, what, error)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - a client must get AWS's form of an error, never HTML
            traceback.print_exc()
            return self._refused(request, what, _unexpected(error))

    def _motos(self, request: AwsRequest, what: Named) -> Answer:
        try:
            answer = self._emulator.journal.answer(request, only_reads=what.only_reads)
        except Exception as error:
            raise _not_offered(what, f" ({type(error).__name__}: {error})") from error
        page = next(iter(answer.body), b"")[:_DOCTYPE].lower()
        if answer.status >= HTTPStatus.BAD_REQUEST and page == b"<!doctype html>":
            raise _not_offered(what)
        return answer

    def _sagemaker(self, request: AwsRequest, name: str) -> Answer:
        operation = OPERATIONS.get(name)
        model = operation_model(name)
        if model is None:
            raise AwsError("UnknownOperationException", f"SageMaker has no operation {name}.")
        if operation is None:
            raise AwsError("UnknownOperationException", f"This emulator does not offer sagemaker:{name}.")
        document = request.document()
        validate(model, document)
        call = Call(self._emulator, document, request.region, self._hold(request))
        return json_answer(request, fitted(model.output_shape, operation(call)))

    def _hold(self, request: AwsRequest) -> float:
        agent = request.user_agent
        features = next((word[2:] for word in agent.split() if word.startswith("m/")), "")
        waits = any(mark in agent.lower() for mark in _SDK_MARKS) or _WAITER in features.split(",")
        return self._emulator.options.hold if waits else 0.0

    def _refused(self, request: AwsRequest, what: Named, error: AwsError) -> Answer:
        if is_s3(what.service):
            return xml_error(request, error, s3=True)
        if request.form:
            return xml_error(request, error, s3=False)
        return json_error(request, error)

    def _remember(self, request: AwsRequest, what: Named) -> dict[str, Any]:
        note: dict[str, Any] = {
            "service": what.service,
            "operation": what.operation,
            "name": _name(request),
            "method": request.method,
            "path": request.path,
            "region": request.region,
            "size": request.size,
            "user_agent": request.user_agent,
            "time": time.time(),
            "status": None,
        }
        with self._lock:
            self._requests.append(note)
        return note


def _name(request: AwsRequest) -> str:
    """What a request is about: a job's name, or bucket/key."""
    if request.target[0] == "SageMaker":
        try:
            document = request.document()
        except AwsError:
            return ""
        names = (value for key, value in document.items() if key.endswith("Name") and isinstance(value, str))
        return next(names, "")
    return request.path.lstrip("/")


def _dropped(request: AwsRequest) -> ConnectionError:
    connection = request.environ.get("werkzeug.socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    return ConnectionAbortedError("a fault wanted the connection dropped")


def _not_offered(what: Named, why: str = "") -> AwsError:
    # A status below 500 keeps clients from trying again.
    return AwsError("NotImplemented", f"This emulator does not offer {what.service}:{what.operation}{why}.")


def _unexpected(error: Exception) -> AwsError:
    return AwsError("InternalFailure", f"{type(error).__name__}: {error}", 500)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
