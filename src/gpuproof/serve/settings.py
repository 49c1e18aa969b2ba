"""Settings of the server from environment variables, with the names of AWS's public inference toolkits.

Sources of the names and defaults: sagemaker-inference 1.10.1 (`parameters.py`, `environment.py`),
sagemaker-pytorch-inference 2.0.25 (`ts_parameters.py`), the README of sagemaker-tensorflow-serving-container, and for
batch transform https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-batch-code.html. `GPUPROOF_SERVE_*` are
specific to this server and take precedence over the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable, TypeVar

from gpuproof.serve.errors import LoadError

MIB = 1024 * 1024
LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "CRITICAL": 50, "FATAL": 50}

_T = TypeVar("_T")


@dataclass(frozen=True)
class Settings:
    """Settings of the server. Times are in seconds, sizes in bytes."""

    program: str = "inference.py"
    """`SAGEMAKER_PROGRAM`: the handler's file or module, relative to `code/`."""
    submit_directory: str = ""
    """`SAGEMAKER_SUBMIT_DIRECTORY`: a folder with the handler, in addition to the model's `code/`."""
    install: bool = True
    """`GPUPROOF_SERVE_INSTALL`: whether missing packages of the handler's `requirements.txt` are installed before loading."""
    base_dir: str = "/opt/ml"
    """`SAGEMAKER_BASE_DIR`: contains the model in `model`, or models in `models` with `multi_model`."""
    multi_model: bool = False
    """`SAGEMAKER_MULTI_MODEL`: models are loaded and unloaded through `/models`."""
    models_roots: tuple[str, ...] = ()
    """`GPUPROOF_SERVE_MODELS_ROOTS`: folders, separated by `:`, that `POST /models` may load models from; by default `models`
    in `base_dir`."""
    models_token: str = ""
    """`GPUPROOF_SERVE_MODELS_TOKEN`: requests to `/models` that list, load or unload models must carry it
    (`Authorization: Bearer TOKEN`)."""

    host: str = "0.0.0.0"  # noqa: S104 - SageMaker connects from outside the container
    """`GPUPROOF_SERVE_HOST`: the address to listen on."""
    port: int = 8080
    """`SAGEMAKER_BIND_TO_PORT`: the port of `/ping` and `/invocations`."""
    safe_port_range: tuple[int, int] | None = None
    """`SAGEMAKER_SAFE_PORT_RANGE`: ports for TensorFlow Serving's REST API on loopback, for handlers that use it; both
    ends are included."""

    workers: int | None = None
    """`SAGEMAKER_MODEL_SERVER_WORKERS`: total number of worker processes; by default `workers_per_gpu` for each GPU, or one."""
    workers_per_gpu: int = 1
    """`GPUPROOF_SERVE_WORKERS_PER_GPU`: worker processes per GPU."""
    threads: int | None = None
    """`OMP_NUM_THREADS`: CPU threads per worker."""

    timeout_s: float = 60
    """`SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS`, `SAGEMAKER_MODEL_SERVER_TIMEOUT`, `SAGEMAKER_TS_RESPONSE_TIMEOUT`: timeout
    of a request; SageMaker's own is 60."""
    startup_timeout_s: float = 600
    """`SAGEMAKER_STARTUP_TIMEOUT`: timeout for loading the model."""
    drain_s: float = 25
    """`GPUPROOF_SERVE_DRAIN`: how long requests may continue after SIGTERM; SageMaker sends SIGKILL after 30."""

    max_payload: int = 25 * MIB
    """`SAGEMAKER_MAX_PAYLOAD_IN_MB` (MiB), else `SAGEMAKER_MAX_REQUEST_SIZE`, `MMS_MAX_REQUEST_SIZE` or
    `TS_MAX_REQUEST_SIZE` (bytes): the maximum size of a body; by default that of real-time endpoints."""
    max_queue: int = 1024
    """`GPUPROOF_SERVE_MAX_QUEUE`: requests that may wait; further ones get 429 or 503 with `Retry-After`."""

    default_accept: str = "application/json"
    """`SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`: the media type of responses if the client has no preference."""
    log_level: int = 20
    """`SAGEMAKER_CONTAINER_LOG_LEVEL`: a number or name of Python's logging."""

    batching: bool | None = None
    """`GPUPROOF_SERVE_BATCH`: `on` or `off` takes precedence over the handler; so does `SAGEMAKER_TFS_ENABLE_BATCHING`."""
    max_batch_size: int = 32
    """`GPUPROOF_SERVE_MAX_BATCH_SIZE`, `SAGEMAKER_TS_BATCH_SIZE`, `SAGEMAKER_TFS_MAX_BATCH_SIZE`: maximum number of requests per
    batch."""

    require_gpu: bool = False
    """`GPUPROOF_SERVE_REQUIRE_GPU`, `GPUPROOF_REQUIRE_GPU`: stay unhealthy if the model is on the CPU."""
    autocast: str = ""
    """`GPUPROOF_SERVE_AUTOCAST`: `bf16` or `fp16`: mixed precision for default predictions of PyTorch models."""
    compile: bool = False
    """`GPUPROOF_SERVE_COMPILE`: compile the model with `torch.compile` after loading."""
    cuda_graphs: bool = False
    """`GPUPROOF_SERVE_CUDA_GRAPHS`: use `torch.compile` in the mode `reduce-overhead`, with CUDA graphs."""
    warmup: str = ""
    """`GPUPROOF_SERVE_WARMUP`: a file with a request, or a folder of such files, to compute before `/ping` returns 200;
    `auto` generates zeros."""

    tfs_default_model: str = ""
    """`SAGEMAKER_TFS_DEFAULT_MODEL_NAME`: the SavedModel for clients that name none; they can select each of
    them."""
    inter_op_threads: int | None = None
    """`SAGEMAKER_TFS_INTER_OP_PARALLELISM`."""
    intra_op_threads: int | None = None
    """`SAGEMAKER_TFS_INTRA_OP_PARALLELISM`."""


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read settings from environment variables.

    Raises:
        LoadError: a variable has an invalid value; the message names it and the valid values.
    """
    defaults = Settings()

    def first(read: Callable[[str, str], _T], default: _T, *names: str) -> _T:
        for name in names:
            value = environ.get(name, "").strip()
            if value:
                return read(name, value)
        return default

    graphs = first(_flag, defaults.cuda_graphs, "GPUPROOF_SERVE_CUDA_GRAPHS")
    return Settings(
        program=first(_text, defaults.program, "SAGEMAKER_PROGRAM"),
        submit_directory=first(_text, "", "SAGEMAKER_SUBMIT_DIRECTORY"),
        install=first(_flag, defaults.install, "GPUPROOF_SERVE_INSTALL"),
        base_dir=first(_text, defaults.base_dir, "SAGEMAKER_BASE_DIR"),
        multi_model=first(_flag, defaults.multi_model, "SAGEMAKER_MULTI_MODEL"),
        models_roots=first(_folders, (), "GPUPROOF_SERVE_MODELS_ROOTS"),
        models_token=first(_text, "", "GPUPROOF_SERVE_MODELS_TOKEN"),
        host=first(_text, defaults.host, "GPUPROOF_SERVE_HOST"),
        port=first(_port, defaults.port, "SAGEMAKER_BIND_TO_PORT"),
        safe_port_range=first(_ports, None, "SAGEMAKER_SAFE_PORT_RANGE"),
        workers=first(_optional(_count), None, "SAGEMAKER_MODEL_SERVER_WORKERS"),
        workers_per_gpu=first(_count, defaults.workers_per_gpu, "GPUPROOF_SERVE_WORKERS_PER_GPU"),
        threads=first(_optional(_count), None, "OMP_NUM_THREADS"),
        timeout_s=first(
            _seconds,
            defaults.timeout_s,
            "SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS",
            "SAGEMAKER_MODEL_SERVER_TIMEOUT",
            "SAGEMAKER_TS_RESPONSE_TIMEOUT",
        ),
        startup_timeout_s=first(_seconds, defaults.startup_timeout_s, "SAGEMAKER_STARTUP_TIMEOUT"),
        drain_s=first(_seconds, defaults.drain_s, "GPUPROOF_SERVE_DRAIN"),
        max_payload=first(
            _mebibytes,
            first(
                _count,
                defaults.max_payload,
                "SAGEMAKER_MAX_REQUEST_SIZE",
                "MMS_MAX_REQUEST_SIZE",
                "TS_MAX_REQUEST_SIZE",
            ),
            "SAGEMAKER_MAX_PAYLOAD_IN_MB",
        ),
        max_queue=first(_count, defaults.max_queue, "GPUPROOF_SERVE_MAX_QUEUE"),
        default_accept=first(_text, defaults.default_accept, "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"),
        log_level=first(_level, defaults.log_level, "SAGEMAKER_CONTAINER_LOG_LEVEL"),
        batching=first(_optional(_flag), None, "GPUPROOF_SERVE_BATCH", "SAGEMAKER_TFS_ENABLE_BATCHING"),
        max_batch_size=first(
            _count,
            defaults.max_batch_size,
            "GPUPROOF_SERVE_MAX_BATCH_SIZE",
            "SAGEMAKER_TS_BATCH_SIZE",
            "SAGEMAKER_TFS_MAX_BATCH_SIZE",
        ),
        require_gpu=first(_flag, defaults.require_gpu, "GPUPROOF_SERVE_REQUIRE_GPU", "GPUPROOF_REQUIRE_GPU"),
        autocast=first(_precision, defaults.autocast, "GPUPROOF_SERVE_AUTOCAST"),
        compile=graphs or first(_flag, defaults.compile, "GPUPROOF_SERVE_COMPILE"),
        cuda_graphs=graphs,
        warmup=first(_text, "", "GPUPROOF_SERVE_WARMUP"),
        tfs_default_model=first(_text, "", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"),
        inter_op_threads=first(_optional(_count), None, "SAGEMAKER_TFS_INTER_OP_PARALLELISM"),
        intra_op_threads=first(_optional(_count), None, "SAGEMAKER_TFS_INTRA_OP_PARALLELISM"),
    )


def count(value: str) -> int:
    """Parse a positive integer. Raises ValueError with a description of valid values."""
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise ValueError("a positive whole number")
    return int(value)


def seconds(value: str) -> float:
    """Parse a positive time. Raises ValueError with a description of valid values."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ValueError("a number of seconds, such as 60")
    return found


def port(value: str) -> int:
    """Parse a port. Raises ValueError with a description of valid values."""
    if not value.isascii() or not value.isdigit() or int(value) > 65535:
        raise ValueError("a port number up to 65535")
    return int(value)


def _text(_name: str, value: str) -> str:
    return value


def _folders(name: str, value: str) -> tuple[str, ...]:
    folders = tuple(part for part in value.split(":") if part)
    if not folders or not all(folder.startswith("/") for folder in folders):
        raise _invalid(name, value, "absolute paths of folders, separated by colons")
    return folders


def _optional(read: Callable[[str, str], _T]) -> Callable[[str, str], _T | None]:
    return read


def _flag(name: str, value: str) -> bool:
    text = value.lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise _invalid(name, value, "true or false")


def _count(name: str, value: str) -> int:
    return _checked(name, value, count)


def _mebibytes(name: str, value: str) -> int:
    # In SageMaker's batch transform, 0 means no limit.
    if value == "0":
        return 1 << 62
    return _count(name, value) * MIB


def _seconds(name: str, value: str) -> float:
    return _checked(name, value, seconds)


def _port(name: str, value: str) -> int:
    return _checked(name, value, port)


def _checked(name: str, value: str, read: Callable[[str], _T]) -> _T:
    try:
        return read(value)
    except ValueError as error:
        raise _invalid(name, value, str(error)) from None


def _ports(name: str, value: str) -> tuple[int, int]:
    low, _, high = value.partition("-")
    try:
        first, last = _port(name, low), _port(name, high)
    except LoadError:
        raise _invalid(name, value, "two ports, such as 9000-9100") from None
    if first > last:
        raise _invalid(name, value, "two ports, the lower one first, such as 9000-9100")
    return first, last


def _level(name: str, value: str) -> int:
    if value.isascii() and value.isdigit():
        return int(value)
    level = LEVELS.get(value.upper())
    if level is None:
        raise _invalid(name, value, "a level of Python's logging, such as 20 or INFO")
    return level


def _precision(name: str, value: str) -> str:
    known = {"bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "off": "", "none": ""}
    if value.lower() not in known:
        raise _invalid(name, value, "bf16 or fp16")
    return known[value.lower()]


def _invalid(name: str, value: str, expected: str) -> LoadError:
    return LoadError(f"{name} is {value!r}; it must be {expected}.", remedy=f"Correct or unset {name}.")
