"""The driver library that a server's workers load."""

from pathlib import Path

import pytest

from gpuproof.serve.frontend.verdict import HEADER, VERDICT
from support.driver_tree import driver_tree
from support.model_server import ECHO, serving

HANDLER = ECHO.replace("return data", "return os.environ.get('LD_LIBRARY_PATH')")
PROGRAM = """
import os, sys
from dataclasses import replace
from pathlib import Path
from gpuproof.serve.flags import read_arguments
from gpuproof.serve.server import serve
from gpuproof.serve.settings import read_settings
settings, folder, options = read_arguments(sys.argv[1:], read_settings(os.environ))
sys.exit(serve(settings, folder, replace(options, root=Path({root!r}))))
"""

pytestmark = pytest.mark.slow


def test_workers_find_the_images_newer_library_first(tmp_path: Path) -> None:
    root = driver_tree(tmp_path / "root", "470.256.02", "550.54.15")
    program = ("-c", PROGRAM.format(root=str(root)))
    with serving(tmp_path, HANDLER, program=program, LD_LIBRARY_PATH="/opt/own") as server:
        assert server.predict(1).json == "/usr/local/cuda/compat:/opt/own"
        assert "550.54.15" in server.log_text
        verdict = server.ask("POST", "/invocations", "{}", {HEADER: VERDICT}).json
        assert (verdict["driver_version"], verdict["cuda_compat"]) == ("470.256.02", "550.54.15")


def test_workers_keep_their_path_where_the_pair_is_not_supported(tmp_path: Path) -> None:
    root = driver_tree(tmp_path / "root", "470.256.02", "580.95.05")
    program = ("-c", PROGRAM.format(root=str(root)))
    with serving(tmp_path, HANDLER, program=program, LD_LIBRARY_PATH="/opt/own") as server:
        assert server.predict(1).json == "/opt/own"
        assert "does not support branch 580" in server.log_text
