"""The serving environment, with the names of sagemaker-inference's `environment`. Reads environment variables."""

from __future__ import annotations

import os

from sagemaker_inference import content_types, parameters

DEFAULT_MODULE_NAME = "inference.py"
DEFAULT_MODEL_SERVER_TIMEOUT = "60"
DEFAULT_STARTUP_TIMEOUT = "600"
DEFAULT_HTTP_PORT = "8080"
DEFAULT_VMARGS = "-XX:-UseContainerSupport"
DEFAULT_MAX_REQUEST_SIZE = None
SAGEMAKER_BASE_PATH = "/opt/ml"

base_dir = os.environ.get(parameters.BASE_PATH_ENV, SAGEMAKER_BASE_PATH)
_FOLDER = "models" if os.environ.get(parameters.MULTI_MODEL_ENV, "").lower() == "true" else "model"
model_dir = f"{base_dir}/{_FOLDER}"
code_dir = f"{model_dir}/code"


class Environment:
    """Settings of the server. Times are in seconds, sizes in bytes, as in sagemaker-inference."""

    def __init__(self) -> None:
        get = os.environ.get
        program = get(parameters.USER_PROGRAM_ENV, DEFAULT_MODULE_NAME)
        self.module_name = program[: -len(".py")] if program.endswith(".py") else program
        self.model_server_timeout = int(
            get(parameters.MODEL_SERVER_TIMEOUT_ENV, DEFAULT_MODEL_SERVER_TIMEOUT)
        )
        self.model_server_timeout_seconds = _number(parameters.MODEL_SERVER_TIMEOUT_SECONDS_ENV)
        self.model_server_workers = get(parameters.MODEL_SERVER_WORKERS_ENV)
        self.startup_timeout = int(get(parameters.STARTUP_TIMEOUT_ENV, DEFAULT_STARTUP_TIMEOUT))
        self.default_accept = get(parameters.DEFAULT_INVOCATIONS_ACCEPT_ENV, content_types.JSON)
        self.inference_http_port = get(parameters.BIND_TO_PORT_ENV, DEFAULT_HTTP_PORT)
        self.management_http_port = self.inference_http_port
        self.safe_port_range = get(parameters.SAFE_PORT_RANGE_ENV)
        self.vmargs = get(parameters.MODEL_SERVER_VMARGS, DEFAULT_VMARGS)
        mebibytes = _number(parameters.MAX_REQUEST_SIZE)
        self.max_request_size = None if mebibytes is None else mebibytes * 1024 * 1024


def _number(name: str) -> int | None:
    value = os.environ.get(name)
    return None if value is None else int(value)
