"""A notebook in a real JupyterLab in a real Chromium, used as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat

from support.browser import Page, browser_page
from support.jupyter import TOKEN, Server, jupyter_environment, server_answers, wait_until
from support.ports import free_port

_IS_SHOWN = "!document.getElementById('jupyterlab-splash')"
"""While JupyterLab starts, and while a theme is loaded, this covers the page."""
_IS_IDLE = """(() => {
  const panel = jupyterapp.shell.currentWidget, kernel = panel?.sessionContext?.session?.kernel;
  return !!kernel && panel.content.widgets.length > 0 && kernel.status === 'idle';
})()"""
_IS_DONE = """(() => {{
  const prompt = jupyterapp.shell.currentWidget.content.widgets[{index}].promptNode.textContent;
  return /[0-9]/.test(prompt);
}})()"""


class Lab:
    """A notebook that is open in JupyterLab.

    Args:
        page: shows it.
        environment: further variables of its kernel.
    """

    def __init__(self, page: Page, environment: Mapping[str, str]) -> None:
        self.page = page
        self.environment = environment

    def run_cell(self, index: int) -> None:
        """Select a cell and press Shift+Enter; does not wait."""
        self.page.evaluate(
            f"""(() => {{
              const notebook = jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = {index};
              notebook.activeCell.editor.focus();
            }})()"""
        )
        self.page.press("Enter", 13, shift=True)

    def wait_until_done(self, index: int) -> None:
        """Wait until a cell that was started has ended."""
        self.page.wait_for(_IS_DONE.format(index=index), f"cell {index} did not end")
        self._wait_for_kernel()

    def command(self, name: str, arguments: Mapping[str, object] = {}) -> None:
        """Execute a command of JupyterLab, such as `notebook:interrupt-kernel`."""
        self.page.evaluate(
            f"jupyterapp.commands.execute({name!r}, {json.dumps(dict(arguments))}).then(() => true)"
        )

    def use_theme(self, name: str) -> None:
        """Change to a theme, such as `JupyterLab Dark`."""
        self.command("apputils:change-theme", {"theme": name})
        light = "false" if "Dark" in name else "true"
        self.page.wait_for(f"document.body.dataset.jpThemeLight === '{light}'", f"no theme {name}")
        self.page.wait_for(_IS_SHOWN, "JupyterLab did not show its page again")

    def output_text(self, index: int) -> str:
        """What the output of a cell says."""
        return self.page.evaluate(
            f"jupyterapp.shell.currentWidget.content.widgets[{index}].outputArea.node.innerText"
        )

    def output_html(self, index: int) -> str:
        """The elements of a cell's output."""
        return self.page.evaluate(
            f"jupyterapp.shell.currentWidget.content.widgets[{index}].outputArea.node.innerHTML"
        )

    def show(self, index: int) -> None:
        """Scroll to a cell."""
        self.page.evaluate(
            f"jupyterapp.shell.currentWidget.content.scrollToItem({index}, 'start').then(() => true)"
        )

    def _wait_for_kernel(self) -> None:
        self.page.wait_for(_IS_IDLE, "the kernel did not become idle")


@contextmanager
def notebook_in_jupyterlab(
    folder: Path, sources: Sequence[str], environment: Mapping[str, str] = {}
) -> Generator[Lab]:
    """A notebook with code cells, open and with a running kernel; everything ends with the block.

    Args:
        folder: an empty folder for the notebook and all settings.
        sources: the cells.
        environment: further variables of the server and its kernels.
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    files = folder / "files"
    files.mkdir()
    nbformat.write(notebook, files / "training.ipynb")
    profile = folder / "profile"
    profile.mkdir()
    with _jupyterlab(folder, files, environment) as server, browser_page(profile) as page:
        page.open(f"{server.url}lab/tree/training.ipynb?token={server.token}")
        lab = Lab(page, environment)
        page.wait_for("typeof jupyterapp === 'object' && !!jupyterapp.shell", "JupyterLab did not start")
        page.wait_for(_IS_SHOWN, "JupyterLab did not show its page")
        lab._wait_for_kernel()
        yield lab


@contextmanager
def _jupyterlab(folder: Path, files: Path, environment: Mapping[str, str]) -> Generator[Server]:
    port = free_port()
    own = jupyter_environment(folder)
    settings = {
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
        "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    }
    lab_settings = folder / "lab"
    (lab_settings / "settings").mkdir(parents=True)
    for name, values in settings.items():
        plugin, _, file = name.partition(":")
        target = lab_settings / "user-settings" / plugin / f"{file}.jupyterlab-settings"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(values))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += [f"--ServerApp.port={port}", "--ip=127.0.0.1", f"--ServerApp.root_dir={files}"]
    command += [f"--LabApp.user_settings_dir={lab_settings / 'user-settings'}"]
    command += [
        f"--LabApp.workspaces_dir={lab_settings / 'workspaces'}",
        "--LabApp.extension_manager=readonly",
    ]
    process = subprocess.Popen(
        command,
        env={**os.environ, **own, "JUPYTER_TOKEN": TOKEN, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    server = Server(f"http://127.0.0.1:{port}/", TOKEN, Path(own["JUPYTER_RUNTIME_DIR"]), process.pid)
    try:
        wait_until(lambda: server_answers(server))
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
