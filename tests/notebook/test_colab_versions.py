"""The extension with the versions of IPython and ipykernel that Google Colab has, where the package is not installed.

Source: https://github.com/googlecolab/backend-info (pip-freeze.txt).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.backends.agent_job.archive import build_agent
from support.notebook_kernel import GpuMachine, notebook_kernel
from support.sdk_environments import interpreter_of

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def test_the_magics_work_with_ipython_7(tmp_path: Path, nvml_home: Path) -> None:
    agent = tmp_path / "gpuproof-agent.pyz"
    build_agent(agent)
    machine = GpuMachine(tmp_path, nvml_home)
    environment = {**machine.environment, "PYTHONPATH": str(agent)}
    with notebook_kernel(tmp_path / "kernel", environment, interpreter_of("colab")) as kernel:
        assert kernel.run("import IPython; IPython.__version__").result == "'7.34.0'"
        kernel.run("%load_ext gpuproof.notebook")
        cell = kernel.run(f"%%gpu\n{machine.work()}\nprint('before')\n6 * 7")
        assert cell.kinds == ["stream", "execute_result", "display_data"]
        assert "used: 1 of 1 GPU" in cell.shown()[0]
        failed = kernel.run(f"%%gpu\nimport asyncio\nawait asyncio.sleep(0)\n{machine.work()}\n1 / 0")
        assert failed.kinds == ["error", "display_data"]
        assert "used: 1 of 1 GPU" in failed.shown()[0]
        assert "NVIDIA A10G" in kernel.run("%gpu").shown()[0]
        kernel.run("%gpu watch on")
        assert kernel.run(machine.wait()).shown()[0].startswith("verdict    cpu-only")
