"""The parts of sagemaker-inference that travel with the server, for handlers that import them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.serve.model.importer import SHIMS


def run(expression: str, **environment: str) -> Any:
    """The value of an expression in an interpreter that has only the carried modules."""
    code = f"import json; from sagemaker_inference import environment, logging, parameters, utils; print(json.dumps({expression}))"
    given = {name: value for name, value in os.environ.items() if not name.startswith("SAGEMAKER_")}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SHIMS)!r}); {code}"],
        env={**given, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_environment_is_that_of_the_container() -> None:
    names = (
        "e.module_name, e.default_accept, e.model_server_timeout, e.max_request_size, environment.code_dir"
    )
    expression = f"(lambda e: [{names}])(environment.Environment())"
    assert run(expression) == ["inference", "application/json", 60, None, "/opt/ml/model/code"]
    assert run(
        expression,
        SAGEMAKER_PROGRAM="serve_me.py",
        SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT="text/csv",
        SAGEMAKER_MODEL_SERVER_TIMEOUT="5",
        SAGEMAKER_MAX_PAYLOAD_IN_MB="6",
        SAGEMAKER_MULTI_MODEL="true",
        SAGEMAKER_BASE_DIR="/base",
    ) == ["serve_me", "text/csv", 5, 6 * 1024 * 1024, "/base/models/code"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("utils.parse_accept('text/csv, application/json')", ["text/csv", "application/json"]),
        ("utils.retrieve_content_type_header({'accept': '*/*', 'Content-Type': 'text/csv'})", "text/csv"),
        ("utils.retrieve_content_type_header({'contentType': 'text/csv'})", "text/csv"),
        ("utils.retrieve_content_type_header({})", None),
        ("utils.remove_crlf('a' + chr(13) + chr(10) + 'b')", "a  b"),
        ("logging.get_logger().name", "sagemaker-inference"),
        ("parameters.USER_PROGRAM_ENV", "SAGEMAKER_PROGRAM"),
    ],
)
def test_helpers_behave_as_in_the_toolkit(expression: str, expected: Any) -> None:
    assert run(expression) == expected


def test_files_are_read_and_written(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert run(f"[utils.write_file({path!r}, 'text'), utils.read_file({path!r})]") == [None, "text"]
