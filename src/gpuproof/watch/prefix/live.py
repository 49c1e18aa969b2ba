"""The line below a command's output that shows its GPUs: when it can be drawn without harm, and what it looks like.

It is drawn only while the cursor is known to be at the start of an empty line and nothing is written, and erased before anything is. The
cursor does not move, and so nothing that the command writes can look different.
"""

from __future__ import annotations

import re

_QUIET_S = 0.4
_EVERY_S = 1.0
_LONGEST_SEQUENCE = 4096
_SEQUENCE = re.compile(
    rb"\x1b(?:\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"  # CSI: ECMA-48, 5.4
    rb"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and other strings
    rb"|[ -/]+[0-~]"
    rb"|(?P<single>[0-OQ-WYZ`-~]))"
)
_BEGINS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
"""The beginning of a sequence at the end of a chunk."""
_VERTICAL = b"ABEFHLMSTdefrsu"
"""Final bytes of the sequences that move the cursor to another line, or lines on the screen: xterm, "Control Sequences"."""
_VERTICAL_SINGLE = b"78DEMc"
_ALTERNATE = (b"?47", b"?1047", b"?1049")
_CURSOR = b"?25"
_COLOURS = frozenset({b"38", b"48", b"58"})
"""Codes that are followed by a colour, whose last number may be 0."""


class LiveLine:
    """The line, and what is known of the screen.

    Args:
        has_colour: whether it is dimmed.
    """

    def __init__(self, *, has_colour: bool = True) -> None:
        self._has_colour = has_colour
        self._rows, self._columns = 24, 80
        self._text = ""
        self._is_drawn = False
        self._drawn_at = self._output_at = float("-inf")
        self._rest = b""
        self.is_line_start = True
        """Whether the cursor is at the start of a line."""
        self._newlines_needed = 0
        self._alternate = self._hidden = self._styled = False

    def set_text(self, text: str) -> None:
        """Set what the line shows; any thread may do so."""
        self._text = text

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal."""
        self._rows, self._columns = rows or 24, columns or 80

    def begin(self, now: float) -> None:
        """Note that another program, such as a shell, has left the cursor at the start of an empty line."""
        self.is_line_start = True
        self._output_at = now

    def note(self, output: bytes, now: float) -> None:
        """Note what the command has written.

        Args:
            now: monotonic, in seconds.
        """
        self._output_at = now
        output = self._rest + output
        self._rest = b""
        if b"\x1b" not in output:
            self._note_plain(output)
            return
        if (beginning := _BEGINS.search(output, max(0, len(output) - _LONGEST_SEQUENCE))) is not None:
            self._rest, output = output[beginning.start() :], output[: beginning.start()]
        end = 0
        for match in _SEQUENCE.finditer(output):
            self._note_plain(output[end : match.start()])
            end = match.end()
            self._note_sequence(match)
        self._note_plain(output[end:])

    def seconds_left(self, now: float) -> float | None:
        """After how many seconds it may be drawn; `None` if only more output can change that."""
        if not self._text or not self._is_free:
            return None
        return max(0.02, max(self._output_at + _QUIET_S, self._drawn_at + _EVERY_S) - now)

    def draw(self, now: float) -> bytes:
        """The bytes that draw it; empty if it cannot be drawn now."""
        left = self.seconds_left(now)
        if left is None or left > 0.02:
            return b""
        text = self._text[: self._columns - 1].encode(errors="replace")
        self._drawn_at, self._is_drawn = now, True
        return b"\x1b[2m%b\x1b[0m\x1b[K\r" % text if self._has_colour else b"%b\x1b[K\r" % text

    def erase(self) -> bytes:
        """The bytes that erase it; empty if it is not drawn."""
        if not self._is_drawn:
            return b""
        self._is_drawn = False
        return b"\r\x1b[K"

    @property
    def _is_free(self) -> bool:
        return (
            self.is_line_start
            and not self._rest
            and not self._newlines_needed
            and not (self._alternate or self._hidden or self._styled)
        )

    def _note_plain(self, text: bytes) -> None:
        if not text:
            return
        if (last := text.rfind(b"\n")) >= 0:
            self.is_line_start = not text[last + 1 :].strip(b"\r\n")
            self._newlines_needed = max(0, self._newlines_needed - text.count(b"\n"))
        elif text.strip(b"\r"):
            self.is_line_start = False

    def _note_sequence(self, match: re.Match[bytes]) -> None:
        final, parameters = match.group("final"), match.group("parameters") or b""
        single = match.group("single")
        if final in (b"h", b"l"):
            is_set = final == b"h"
            names = (
                [parameters]
                if b";" not in parameters
                else [b"?" + n.lstrip(b"?") for n in parameters.split(b";")]
            )
            self._alternate = is_set if any(name in _ALTERNATE for name in names) else self._alternate
            self._hidden = not is_set if _CURSOR in names else self._hidden
        elif final == b"m" and not parameters.startswith((b">", b"?")):
            # The line's own colour would end the command's.
            codes = parameters.split(b";")
            self._styled = bool(codes[-1].strip(b"0")) or not _COLOURS.isdisjoint(codes)
        elif (final and final in _VERTICAL) or (single and single in _VERTICAL_SINGLE):
            # The screen may have text where the cursor is. After so many lines, it cannot.
            self._newlines_needed = self._rows
            self.is_line_start = False
