"""A plot of one GPU over time as SVG: utilization as an area, memory as a dashed line. Readable on light and dark backgrounds."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from itertools import groupby

from gpuproof.gpu.telemetry import Series

WIDTH, HEIGHT = 360, 64
AREA_COLOUR = "#3987e5"
"""A blue with a contrast of about 3.5 to 1 on white and 4.5 to 1 on the dark themes' greys."""
_SVG = "http://www.w3.org/2000/svg"
_TOP, _BOTTOM = 2.0, 50.0
_MOST_PERCENT = 100.0


def gpu_plot(
    title: str, seconds: float, utilization: Series, memory: Series | None, total: int | None
) -> str:
    """The plot, without a legend.

    Args:
        title: read by screen readers and shown by the mouse.
        seconds: on the time axis.
        utilization: in percent.
        memory: bytes in use; `None` if unknown.
        total: the GPU's memory in bytes, the top of the plot.
    """
    x = _scale(seconds)
    style = f"width:100%;max-width:{WIDTH}px;height:auto;display:block"
    parts = [
        f'<svg xmlns="{_SVG}" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" style="{style}">',
        f"<title>{html.escape(title)}</title>",
        *(_line(level, 0.35 if level == 0 else 0.15) for level in (0.0, 50.0, 100.0)),
    ]
    for area in _steps(utilization, x, seconds, _MOST_PERCENT):
        first, last = area[0][0], area[-1][0]
        outline = " L".join(f"{left:.1f} {top:.1f}" for left, top in area)
        parts.append(
            f'<path d="M{first:.1f} {_BOTTOM} L{outline} L{last:.1f} {_BOTTOM} Z" fill="{AREA_COLOUR}" fill-opacity="0.45"/>'
            f'<path d="M{outline}" fill="none" stroke="{AREA_COLOUR}" stroke-width="1.5"/>'
        )
    if memory is not None and total:
        for line in _steps(memory, x, seconds, float(total)):
            outline = " L".join(f"{left:.1f} {top:.1f}" for left, top in line)
            parts.append(
                f'<path d="M{outline}" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 3"/>'
            )
    parts += [
        _label(0, "start", "0 s"),
        _label(WIDTH, "end", f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"),
        "</svg>",
    ]
    return "".join(parts)


def legend() -> str:
    """What the area and the line of a plot mean."""
    area = f'<rect width="16" height="10" y="1" fill="{AREA_COLOUR}" fill-opacity="0.45" stroke="{AREA_COLOUR}"/>'
    line = '<path d="M0 6 H16" stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 3"/>'
    return (
        f'<span style="white-space:nowrap">{_key(area)} utilization, 0 to 100%</span>&emsp;'
        f'<span style="white-space:nowrap">{_key(line)} memory in use, 0 to all</span>'
    )


def _key(shape: str) -> str:
    return (
        f'<svg xmlns="{_SVG}" aria-hidden="true" width="16" height="12" viewBox="0 0 16 12" '
        f'style="display:inline-block;vertical-align:-1px">{shape}</svg>'
    )


def _scale(seconds: float) -> float:
    """Units of the plot for a second."""
    return WIDTH / seconds if seconds > 0 else 0.0


def _steps(series: Series, scale: float, seconds: float, most: float) -> Iterator[list[tuple[float, float]]]:
    """The corners of each stretch of known values; every value covers a step of time."""
    values: Sequence[float | None] = series.values
    for known, stretch in groupby(range(len(values)), key=lambda index: values[index] is not None):
        if not known:
            continue
        corners: list[tuple[float, float]] = []
        for index in stretch:
            begin, end = index * series.step_s, min((index + 1) * series.step_s, seconds)
            if end <= begin:
                continue
            top = _height(values[index] or 0.0, most)
            corners += [(begin * scale, top), (end * scale, top)]
        if corners:
            yield corners


def _height(value: float, most: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * min(max(value / most, 0.0), 1.0)


def _line(percent: float, opacity: float) -> str:
    y = _height(percent, _MOST_PERCENT)
    return f'<path d="M0 {y:.1f} H{WIDTH}" stroke="currentColor" stroke-opacity="{opacity}"/>'


def _label(x: int, anchor: str, text: str) -> str:
    return (
        f'<text x="{x}" y="{HEIGHT - 2}" text-anchor="{anchor}" font-size="10" fill="currentColor" '
        f'fill-opacity="0.75">{html.escape(text)}</text>'
    )
