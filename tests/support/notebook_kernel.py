"""A real IPython kernel that runs one cell after another, on a machine with stub GPUs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from support.jupyter import jupyter_environment
from support.nvml_stub import Scenario

_LIMIT_S = 300.0


@dataclass
class Cell:
    """What a cell has shown, in the order of its output.

    Args:
        outputs: contents of the messages, each with its type as `msg_type`.
        reply: content of the reply.
    """

    outputs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    reply: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def kinds(self) -> list[str]:
        """Types of the outputs, such as `stream`, `execute_result`, `error`, `display_data`."""
        return [output["msg_type"] for output in self.outputs]

    @property
    def printed(self) -> str:
        """The text of its streams."""
        return "".join(output["text"] for output in self.outputs if output["msg_type"] == "stream")

    def shown(self, mime: str = "text/plain") -> list[str]:
        """What was displayed, without results."""
        return [
            output["data"][mime]
            for output in self.outputs
            if output["msg_type"] == "display_data" and mime in output["data"]
        ]

    @property
    def result(self) -> str | None:
        """The text of its result."""
        found = [output for output in self.outputs if output["msg_type"] == "execute_result"]
        return found[0]["data"]["text/plain"] if found else None


class NotebookKernel:
    """A kernel with the extension, or without."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client

    def run(self, source: str) -> Cell:
        """Run a cell to its end."""
        return self.finish(self.client.execute(source))

    def finish(self, request: str) -> Cell:
        """Wait for the end of a cell that has been started."""
        cell = Cell()
        while True:
            message = self.client.get_iopub_msg(timeout=_LIMIT_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind in ("stream", "execute_result", "display_data", "error"):
                cell.outputs.append({**content, "msg_type": kind})
        while (reply := self.client.get_shell_msg(timeout=_LIMIT_S))["parent_header"].get(
            "msg_id"
        ) != request:
            pass
        cell.reply = reply["content"]
        return cell

    @property
    def pid(self) -> int:
        """Process id of the kernel."""
        provisioner: Any = self.manager.provisioner
        return provisioner.pid


@contextmanager
def notebook_kernel(
    folder: Path, environment: Mapping[str, str], python: Path | None = None
) -> Generator[NotebookKernel]:
    """A kernel that ends with the block.

    Args:
        folder: for Jupyter's own files, and the kernel's working folder.
        environment: further variables.
        python: has ipykernel; the interpreter of the tests if None.
    """
    own = {**os.environ, **jupyter_environment(folder), **environment}
    manager = KernelManager(kernel_name="test", kernel_spec_manager=_specs(folder, python or sys.executable))
    manager.start_kernel(cwd=str(folder), env=own)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=_LIMIT_S)
        yield NotebookKernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _specs(folder: Path, python: Path | str) -> KernelSpecManager:
    """A kernel by the name `test`."""
    spec = folder / "kernelspecs" / "test" / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": command, "display_name": "test", "language": "python"}))
    return KernelSpecManager(kernel_dirs=[str(spec.parent.parent)])


@dataclass
class GpuMachine:
    """Stub GPUs that work while a kernel works.

    Args:
        folder: of the scenario's files.
        library: folder of the stub NVML.
        gpus: how many.
    """

    folder: Path
    library: Path
    gpus: int = 1

    def __post_init__(self) -> None:
        self.pid_file = self.folder / "worker.pid"
        self.looks = self.folder / "looks"
        scenario = Scenario(self.folder / "gpus.txt").gpus(self.gpus).when_registered(self.pid_file, util=87)
        self.environment = scenario.seen(self.looks).write().environment(self.library)

    def work(self, seconds: float = 1.5, readings: int = 4) -> str:
        """Code that works on GPU 0 until that time has passed and that many readings were taken, then stops working."""
        return (
            "import os, time\n"
            f"with open({str(self.pid_file)!r}, 'w') as file:\n"
            "    file.write(str(os.getpid()))\n"
            f"{self.wait(seconds, readings)}\n"
            f"os.unlink({str(self.pid_file)!r})\n"
        )

    def wait(self, seconds: float = 1.5, readings: int = 4) -> str:
        """Code that waits for that time and that many readings."""
        return (
            "import os, time\n"
            f"until, enough = time.monotonic() + {seconds}, os.path.getsize({str(self.looks)!r}) + {readings}\n"
            f"while time.monotonic() < until or os.path.getsize({str(self.looks)!r}) < enough:\n"
            "    time.sleep(0.02)"
        )
