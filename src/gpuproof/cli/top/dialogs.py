"""The dialogs of `gpuproof top`: whether to stop the run, and the keys."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static

KEYS = """\
q          quit; the run continues
s          stop the run, after a question
r          write the report of the run
l          show or hide the log
up, down   choose a host (also Tab), or scroll
Enter      show or hide the GPUs of a host
PgUp PgDn  scroll
?          this help"""

_ANSWERS = ("y", "n", "q", "escape", "enter")


class Dialog(ModalScreen[bool]):
    """A text over the screen; returns whether it was confirmed.

    Args:
        text: what it says.
        question: whether `y` confirms it; without a question, any key closes it.
    """

    CSS = """
    Dialog { align: center middle; }
    Dialog Static { width: auto; max-width: 90%; height: auto; border: ascii; padding: 0 1; }
    """

    def __init__(self, text: str, *, question: bool = False) -> None:
        super().__init__()
        self._text = text
        self._question = question
        self._is_answered = False

    def compose(self) -> ComposeResult:
        """The text."""
        yield Static(self._text, markup=False)

    def on_key(self, event: Key) -> None:
        """Close it: with y or n, or with any key if there is nothing to confirm."""
        event.stop()
        if self._is_answered or (self._question and event.key not in _ANSWERS):
            return
        self._is_answered = True
        self.dismiss(self._question and event.key == "y")
