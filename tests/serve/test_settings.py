"""What the environment may say to the server, and how it is refused."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from gpuproof.serve import settings
from gpuproof.serve.errors import LoadError
from gpuproof.serve.settings import MIB, Settings, read_settings


def test_an_empty_environment_means_the_defaults() -> None:
    assert read_settings({}) == Settings()


def test_empty_variables_count_as_unset() -> None:
    assert read_settings({"SAGEMAKER_BIND_TO_PORT": " ", "SAGEMAKER_PROGRAM": ""}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("SAGEMAKER_PROGRAM", "serve_me.py", "program", "serve_me.py"),
        ("SAGEMAKER_SUBMIT_DIRECTORY", "/opt/ml/model/code", "submit_directory", "/opt/ml/model/code"),
        ("GPUPROOF_SERVE_INSTALL", "off", "install", False),
        ("SAGEMAKER_BASE_DIR", "/srv/ml", "base_dir", "/srv/ml"),
        ("SAGEMAKER_MULTI_MODEL", "true", "multi_model", True),
        ("GPUPROOF_SERVE_MODELS_ROOTS", "/opt/ml/models:/mnt", "models_roots", ("/opt/ml/models", "/mnt")),
        ("GPUPROOF_SERVE_MODELS_TOKEN", "secret", "models_token", "secret"),
        ("SAGEMAKER_BIND_TO_PORT", "9001", "port", 9001),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9000-9100", "safe_port_range", (9000, 9100)),
        ("SAGEMAKER_MODEL_SERVER_WORKERS", "3", "workers", 3),
        ("SAGEMAKER_MODEL_SERVER_TIMEOUT", "120", "timeout_s", 120.0),
        ("SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS", "0.5", "timeout_s", 0.5),
        ("SAGEMAKER_TS_RESPONSE_TIMEOUT", "30", "timeout_s", 30.0),
        ("SAGEMAKER_STARTUP_TIMEOUT", "900", "startup_timeout_s", 900.0),
        ("SAGEMAKER_MAX_PAYLOAD_IN_MB", "6", "max_payload", 6 * MIB),
        ("SAGEMAKER_MAX_PAYLOAD_IN_MB", "0", "max_payload", 1 << 62),
        ("SAGEMAKER_MAX_REQUEST_SIZE", "1000", "max_payload", 1000),
        ("TS_MAX_REQUEST_SIZE", "1000", "max_payload", 1000),
        ("MMS_MAX_REQUEST_SIZE", "1000", "max_payload", 1000),
        ("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "text/csv", "default_accept", "text/csv"),
        ("SAGEMAKER_CONTAINER_LOG_LEVEL", "10", "log_level", 10),
        ("SAGEMAKER_CONTAINER_LOG_LEVEL", "warning", "log_level", 30),
        ("SAGEMAKER_TS_BATCH_SIZE", "16", "max_batch_size", 16),
        ("SAGEMAKER_TFS_MAX_BATCH_SIZE", "64", "max_batch_size", 64),
        ("SAGEMAKER_TFS_ENABLE_BATCHING", "false", "batching", False),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "half", "tfs_default_model", "half"),
        ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", "2", "inter_op_threads", 2),
        ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", "4", "intra_op_threads", 4),
        ("OMP_NUM_THREADS", "4", "threads", 4),
        ("GPUPROOF_REQUIRE_GPU", "1", "require_gpu", True),
        ("GPUPROOF_SERVE_AUTOCAST", "bfloat16", "autocast", "bf16"),
        ("GPUPROOF_SERVE_WARMUP", "request.json", "warmup", "request.json"),
        ("GPUPROOF_SERVE_MAX_QUEUE", "8", "max_queue", 8),
        ("GPUPROOF_SERVE_DRAIN", "5", "drain_s", 5.0),
        ("GPUPROOF_SERVE_HOST", "127.0.0.1", "host", "127.0.0.1"),
        ("GPUPROOF_SERVE_WORKERS_PER_GPU", "2", "workers_per_gpu", 2),
    ],
)
def test_a_variable_sets_its_field(name: str, value: str, field: str, expected: object) -> None:
    assert getattr(read_settings({name: value}), field) == expected


def test_seconds_go_before_the_older_name_of_the_time_out() -> None:
    environ = {"SAGEMAKER_MODEL_SERVER_TIMEOUT": "60", "SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": "5"}
    assert read_settings(environ).timeout_s == 5


def test_the_servers_own_batch_size_goes_before_the_containers() -> None:
    environ = {"SAGEMAKER_TS_BATCH_SIZE": "4", "GPUPROOF_SERVE_MAX_BATCH_SIZE": "2"}
    assert read_settings(environ).max_batch_size == 2


def test_cuda_graphs_need_compilation() -> None:
    assert read_settings({"GPUPROOF_SERVE_CUDA_GRAPHS": "on"}).compile


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SAGEMAKER_BIND_TO_PORT", "http"),
        ("SAGEMAKER_BIND_TO_PORT", "70000"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9000"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9100-9000"),
        ("SAGEMAKER_MODEL_SERVER_WORKERS", "0"),
        ("SAGEMAKER_MODEL_SERVER_WORKERS", "²"),
        ("SAGEMAKER_MODEL_SERVER_TIMEOUT", "-1"),
        ("SAGEMAKER_MODEL_SERVER_TIMEOUT", "inf"),
        ("SAGEMAKER_MULTI_MODEL", "perhaps"),
        ("GPUPROOF_SERVE_MODELS_ROOTS", "models"),
        ("SAGEMAKER_CONTAINER_LOG_LEVEL", "loud"),
        ("GPUPROOF_SERVE_AUTOCAST", "int4"),
    ],
)
def test_an_impossible_value_is_refused_by_its_variables_name(name: str, value: str) -> None:
    with pytest.raises(LoadError, match=name):
        read_settings({name: value})


def test_every_field_names_the_variable_that_sets_it() -> None:
    source = inspect.getsource(Settings)
    for field in dataclasses.fields(Settings):
        docstring = source.partition(f"    {field.name}: ")[2].split('"""')[1]
        assert "`SAGEMAKER_" in docstring or "`GPUPROOF_" in docstring or "`OMP_" in docstring, field.name
    assert settings.__doc__
