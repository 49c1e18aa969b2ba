"""A plot of one GPU over time as SVG: utilization as an area, memory as a dashed line. Readable on light and dark backgrounds.

There is no text within the SVG: where a notebook is not trusted, JupyterLab removes its shapes and would leave its text behind.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuproof.gpu.telemetry import Series

WIDTH, HEIGHT = 360, 52
AREA_COLOUR = "#3987e5"
"""A blue with a contrast of about 3.5 to 1 on white and 4.5 to 1 on the dark themes' greys."""
_SVG = "http://www.w3.org/2000/svg"
_TOP, _BOTTOM = 2.0, 50.0
_MOST_PERCENT = 100.0
_DASHES = 'stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 3"'


class _Step(NamedTuple):
    """A stretch of time with one value, in units of the plot."""

    left: float
    right: float
    top: float


def gpu_plot(title: str, seconds: float, series: Series, total: int | None) -> str:
    """The plot, without a legend.

    Args:
        title: read by screen readers.
        seconds: on the time axis.
        total: the GPU's memory in bytes, the top of the plot.
    """
    scale = WIDTH / seconds if seconds > 0 else 0.0
    label = html.escape(title)
    style = f"width:100%;max-width:{WIDTH}px;height:auto;display:block"
    parts = [
        f'<svg xmlns="{_SVG}" role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}" style="{style}">',
        *(_line(level, 0.35 if level == 0 else 0.15) for level in (0.0, 50.0, 100.0)),
    ]
    for steps in _stretches(series.values, series.step_s, scale, seconds, _MOST_PERCENT):
        area = f"M{_short(steps[0].left)} {_short(_BOTTOM)}V{_outline(steps)}V{_short(_BOTTOM)}Z"
        parts.append(f'<path d="{area}" fill="{AREA_COLOUR}" fill-opacity="0.45" stroke="{AREA_COLOUR}"/>')
    if total:
        for steps in _stretches(series.memory, series.step_s, scale, seconds, float(total)):
            line = f"M{_short(steps[0].left)} {_outline(steps)}"
            parts.append(f'<path d="{line}" fill="none" {_DASHES}/>')
    end = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    axis = f"max-width:{WIDTH}px;display:flex;justify-content:space-between;font-size:10px;opacity:0.75"
    parts.append(f'</svg><div style="{axis}"><span>0 s</span><span>{end}</span></div>')
    return "".join(parts)


def legend() -> str:
    """What the area and the line of a plot mean."""
    area = f'<rect width="16" height="10" y="1" fill="{AREA_COLOUR}" fill-opacity="0.45" stroke="{AREA_COLOUR}"/>'
    line = f'<path d="M0 6H16" {_DASHES}/>'
    return (
        f'<span style="white-space:nowrap">{_key(area)} utilization, 0 to 100%</span>&emsp;'
        f'<span style="white-space:nowrap">{_key(line)} memory in use, 0 to all</span>'
    )


def _key(shape: str) -> str:
    return (
        f'<svg xmlns="{_SVG}" aria-hidden="true" width="16" height="12" viewBox="0 0 16 12" '
        f'style="display:inline-block;vertical-align:-1px">{shape}</svg>'
    )


def _stretches(
    values: Sequence[float | None], step_s: float, scale: float, seconds: float, most: float
) -> Iterator[list[_Step]]:
    """The steps of each stretch of known values; every value covers a step of time."""
    for known, indexes in groupby(range(len(values)), key=lambda index: values[index] is not None):
        if not known:
            continue
        steps: list[_Step] = []
        for index in indexes:
            begin, end = index * step_s, min((index + 1) * step_s, seconds)
            top = _height(values[index] or 0.0, most)
            if end > begin:
                steps.append(_Step(begin * scale, end * scale, top))
        if steps:
            yield steps


def _outline(steps: Sequence[_Step]) -> str:
    """`40H3V35.5H9`: the tops of steps as the end of an SVG path; equal neighbours are one step."""
    parts = [_short(steps[0].top)]
    for step, following in zip(steps, [*steps[1:], None]):
        if following is None:
            parts.append(f"H{_short(step.right)}")
        elif _short(following.top) != _short(step.top):
            parts.append(f"H{_short(step.right)}V{_short(following.top)}")
    return "".join(parts)


def _short(number: float) -> str:
    """A coordinate with one decimal at most: notebooks keep every plot."""
    return f"{number:.1f}".removesuffix(".0")


def _height(value: float, most: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * min(max(value / most, 0.0), 1.0)


def _line(percent: float, opacity: float) -> str:
    y = _height(percent, _MOST_PERCENT)
    return f'<path d="M0 {_short(y)}H{WIDTH}" stroke="currentColor" stroke-opacity="{opacity}"/>'
