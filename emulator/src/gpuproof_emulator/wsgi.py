"""WSGI entry point: decode the request, inject faults, route it, and record it."""

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

from gpuproof_emulator import admin_api
from gpuproof_emulator.auth.browser import is_from_web_page, without_cors
from gpuproof_emulator.auth.failures import Rejected, auth_error, is_query_protocol
from gpuproof_emulator.auth.post_policy import is_form_upload, verify_form
from gpuproof_emulator.auth.signature import may_be_signed
from gpuproof_emulator.clients import USER_AGENT
from gpuproof_emulator.emulator import Emulator
from gpuproof_emulator.execution.notebooks import presigned
from gpuproof_emulator.faults.fault import AT_REQUEST, Fault
from gpuproof_emulator.faults.responses import fault_error
from gpuproof_emulator.operations import OPERATIONS
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.operations.recorded import is_recorded, record_only
from gpuproof_emulator.permissions import s3_permissions
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse, json_error, json_response, xml_error
from gpuproof_emulator.routing import OperationName, identify_operation, is_s3
from gpuproof_emulator.service_model import filter_members, operation_model, validate
from gpuproof_emulator.services import dispatch, ec2_boot, scheduler

_MAX_RECORDED = 100_000  # requests
_DOCTYPE = b"<!doctype html>"
_SDK_USER_AGENTS = ("sagemaker-python-sdk", "md/sagemaker", "sagemaker/")
_WAITER = "B"  # botocore's code for a waiter among a user agent's features: botocore/useragent.py


class Application:
    """The emulator as a WSGI application.

    Args:
        emulator: handles the requests.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._requests: deque[dict[str, Any]] = deque(maxlen=_MAX_RECORDED)
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Handle one request."""
        if is_from_web_page(environ):
            return _forbid(start_response, "Web pages may not use the emulator.")
        if environ.get("PATH_INFO", "").startswith(admin_api.PREFIX):
            if not admin_api.is_authorized(environ, self._emulator.token):
                return _forbid(start_response, "The header Authorization must be: Bearer TOKEN.")
            response = admin_api.handle(self._emulator, AwsRequest.read(environ), self._requests)
        elif environ.get("PATH_INFO", "").startswith(presigned.PREFIX):
            response = self._open_notebook(AwsRequest.without_body(environ))
        else:
            response = without_cors(self._authenticate(environ))
        start_response(f"{response.status} {_phrase(response.status)}", list(response.headers))
        return response.body

    def _open_notebook(self, request: AwsRequest) -> AwsResponse:
        context = self._emulator.context
        notebook = presigned.find_notebook(context, request)
        url = self._emulator.notebooks.jupyter_url(notebook) if notebook is not None else None
        return presigned.respond(context, request, url)

    def _authenticate(self, environ: dict[str, Any]) -> AwsResponse:
        # The body of a request without a signature is not read.
        request = AwsRequest.read(environ) if may_be_signed(environ) else AwsRequest.without_body(environ)
        operation = identify_operation(request)
        try:
            if is_form_upload(request):
                verify_form(request, self._emulator.signatures, time.time())
            else:
                self._emulator.signatures.verify(request)
        except Rejected as error:
            return _error_response(request, operation, auth_error(error.failure, request, operation.service))
        if operation.service == "monitoring":
            try:
                request = request.decompressed()
            except AwsError as error:
                return _error_response(request, operation, error)
            operation = identify_operation(request)
        return self._handle(request, operation)

    def _handle(self, request: AwsRequest, operation: OperationName) -> AwsResponse:
        if USER_AGENT in request.user_agent:
            return self._route(request, operation)
        record = self._record(request, operation)
        fault = self._emulator.context.faults.trigger(
            AT_REQUEST,
            service=operation.service,
            operation=operation.operation,
            name=_subject(request),
            region=request.region,
        )
        try:
            response = (
                self._route(request, operation) if fault is None else self._inject(fault, request, operation)
            )
        except AwsError as error:
            response = _error_response(request, operation, error)
        record["status"] = response.status
        record["seconds"] = round(time.time() - record["time"], 3)
        return response

    def _inject(self, fault: Fault, request: AwsRequest, operation: OperationName) -> AwsResponse:
        if fault.kind == "drop":
            if fault.when == "after":
                self._route(request, operation)
            raise _drop_connection(request)
        if fault.kind == "slow":
            time.sleep(fault.seconds)
            return self._route(request, operation)
        raise fault_error(fault, request, operation)

    def _route(self, request: AwsRequest, operation: OperationName) -> AwsResponse:
        context = self._emulator.context
        try:
            if context.options.enforce_iam:
                return s3_permissions.handle(
                    context.authorizer, request, operation, lambda: self._serve(request, operation)
                )
            return self._serve(request, operation)
        except AwsError as error:
            return _error_response(request, operation, error)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - clients must get AWS's error format, never HTML
            traceback.print_exc()
            failure = AwsError("InternalFailure", f"{type(error).__name__}: {error}", 500)
            return _error_response(request, operation, failure)

    def _serve(self, request: AwsRequest, operation: OperationName) -> AwsResponse:
        if request.target[0] == "SageMaker":
            return self._handle_sagemaker(request, operation)
        if operation.service == "sagemaker-runtime":
            return self._emulator.endpoints.invoke(request)
        instances = self._emulator.instances
        if operation.service == "ec2" and instances is None:
            return ec2_boot.mark_recorded(self._handle_other(request, operation))
        if operation.service == "ec2" and instances is not None:
            return ec2_boot.handle(
                instances, operation.operation, request, lambda: self._handle_other(request, operation)
            )
        if operation.service == "monitoring" and operation.read_only:
            self._emulator.endpoints.metrics.publish()
        if operation.service == "scheduler":
            return scheduler.handle(
                self._emulator.context,
                self._emulator.schedules,
                operation.operation,
                request,
                lambda: self._handle_other(request, operation),
            )
        return self._handle_other(request, operation)

    def _handle_other(self, request: AwsRequest, operation: OperationName) -> AwsResponse:
        if handler := dispatch.find_handler(request, operation):
            return handler(self._emulator.context, self._emulator.journal, request)
        return self._handle_moto(request, operation)

    def _handle_moto(self, request: AwsRequest, operation: OperationName) -> AwsResponse:
        try:
            response = self._emulator.journal.handle(request, read_only=operation.read_only)
        except Exception as error:
            raise _not_supported(operation, f" ({type(error).__name__}: {error})") from error
        page = next(iter(response.body), b"")[: len(_DOCTYPE)].lower()
        if response.status >= HTTPStatus.BAD_REQUEST and page == _DOCTYPE:
            raise _not_supported(operation)
        return response

    def _handle_sagemaker(self, request: AwsRequest, name: OperationName) -> AwsResponse:
        operation = OPERATIONS.get(name.operation)
        model = operation_model(name.operation)
        if model is None:
            raise AwsError("UnknownOperationException", f"SageMaker has no operation {name.operation}.")
        document = request.document()
        validate(model, document)
        emulator = self._emulator
        if operation is None or is_recorded(name.operation, document):
            return record_only(self._handle_moto, request, name)
        hold = emulator.context.options.hold if _may_wait(request) else 0.0
        call = OperationCall(
            emulator.context,
            emulator.jobs,
            emulator.endpoints,
            emulator.notebooks,
            document,
            request.region,
            hold,
        )
        return json_response(request, filter_members(model.output_shape, operation(call)))

    def _record(self, request: AwsRequest, operation: OperationName) -> dict[str, Any]:
        record: dict[str, Any] = {
            "service": operation.service,
            "operation": operation.operation,
            "name": _subject(request),
            "method": request.method,
            "path": request.path,
            "region": request.region,
            "size": request.size,
            "user_agent": request.user_agent,
            "time": time.time(),
            "status": None,
        }
        with self._lock:
            self._requests.append(record)
        return record


def _forbid(start_response: Callable[..., Any], why: str) -> list[bytes]:
    body = f"{why}\n".encode()
    start_response("403 Forbidden", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def _may_wait(request: AwsRequest) -> bool:
    """Whether the client polls: a SageMaker SDK or one of botocore's waiters."""
    agent = request.user_agent
    features = next((word[2:] for word in agent.split() if word.startswith("m/")), "")
    return any(mark in agent.lower() for mark in _SDK_USER_AGENTS) or _WAITER in features.split(",")


def _error_response(request: AwsRequest, operation: OperationName, error: AwsError) -> AwsResponse:
    if is_s3(operation.service):
        return xml_error(request, error, s3=True)
    if is_query_protocol(request):
        return xml_error(request, error, s3=False)
    return json_error(request, error)


def _subject(request: AwsRequest) -> str:
    """The name of the request's resource: a job's name, or bucket/key."""
    if request.target[0] == "SageMaker":
        try:
            document = request.document()
        except AwsError:
            return ""
        names = (value for key, value in document.items() if key.endswith("Name") and isinstance(value, str))
        return next(names, "")
    return request.path.lstrip("/")


def _drop_connection(request: AwsRequest) -> ConnectionError:
    connection = request.environ.get("werkzeug.socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    return ConnectionAbortedError("the connection was dropped by a fault")


def _not_supported(operation: OperationName, why: str = "") -> AwsError:
    # A status below 500 keeps clients from retrying.
    return AwsError(
        "NotImplemented", f"This emulator does not support {operation.service}:{operation.operation}{why}."
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
