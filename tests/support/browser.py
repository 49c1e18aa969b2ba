"""Drives Chromium over the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

from support.chromium import find_chromium

_LIMIT_S = 300.0
_SERVER_ERROR = -32000
"""Also that the page was left while a call waited for its answer."""
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--window-size=1000,1100",
)


class ProtocolError(AssertionError):
    """What the browser answered to a call instead of a result.

    Args:
        code: of JSON-RPC (https://www.jsonrpc.org/specification#error_object).
        message: what was called, and the error.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Page:
    """A page of a browser.

    Args:
        address: of its DevTools socket.
    """

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=_LIMIT_S, suppress_origin=True)
        self._ids = itertools.count(1)

    def open(self, url: str) -> None:
        """Go to an address, and wait until its document has replaced the one before, which may be the same page."""
        # Page.navigate is answered before the document of the page is the new one.
        self.evaluate("window.isBeingLeft = true")
        self.call("Page.navigate", url=url)
        self.wait_for("!window.isBeingLeft", f"{url} does not load")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; waits for a promise.

        Raises:
            AssertionError: it threw an exception.
        """
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str, what: str) -> Any:
        """Wait until a JavaScript expression is true; fails with `what` and the page's text after a generous time."""
        until = time.monotonic() + _LIMIT_S
        while not (value := self._evaluate_if_loaded(expression)):
            assert time.monotonic() < until, f"{what}:\n{self.evaluate('document.body.innerText')}"
            time.sleep(0.1)
        return value

    def _evaluate_if_loaded(self, expression: str) -> Any:
        """The value of an expression; `None` if the page was left before it had one."""
        try:
            return self.evaluate(expression)
        except ProtocolError as error:
            if error.code != _SERVER_ERROR:
                raise
            return None

    def press(self, key: str, code: int, *, shift: bool = False) -> None:
        """Press a key in the element that has the focus.

        Args:
            code: of Windows' virtual keys, such as 13 for Enter.
        """
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=8 if shift else 0,
            )

    def screenshot(self, path: Path) -> None:
        """Save what the page shows as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result.

        Raises:
            ProtocolError: the browser could not do it.
        """
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(self._socket.recv())).get("id") != number:
            pass
        if "error" in answer:
            raise ProtocolError(answer["error"]["code"], f"{method}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


@contextmanager
def browser_page(profile: Path) -> Generator[Page]:
    """An empty page in a Chromium of its own, which ends with the block; skips the test where there is none.

    Args:
        profile: an empty folder for its files.
    """
    chromium = find_chromium()
    environment = {**os.environ, "HOME": str(profile)}
    if chromium.libraries is not None:
        environment["LD_LIBRARY_PATH"] = str(chromium.libraries)
    process = subprocess.Popen(
        [str(chromium.program), *_FLAGS, *chromium.flags, f"--user-data-dir={profile}", "about:blank"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        page = Page(_page_address(process, profile))
        # No window manager gives a headless window the focus.
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        yield page
        page.close()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _page_address(process: subprocess.Popen[bytes], profile: Path) -> str:
    """The socket of the first page. Chromium writes its port into a file: see `--remote-debugging-port`."""
    until = time.monotonic() + _LIMIT_S
    while True:
        assert process.poll() is None, f"Chromium ended with {process.returncode}"
        assert time.monotonic() < until, "Chromium did not open a page in time"
        try:
            port = int((profile / "DevToolsActivePort").read_text().split()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_LIMIT_S) as answer:
                pages = [target for target in json.loads(answer.read()) if target["type"] == "page"]
            return pages[0]["webSocketDebuggerUrl"]
        except (OSError, ValueError, IndexError):
            time.sleep(0.05)
