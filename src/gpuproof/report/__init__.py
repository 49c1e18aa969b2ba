"""Reports: a page as typed values (`page.py`, `charts.py`), its JSON, and a self-contained HTML file (`shell.py`).

The browser's half is `assets/`: `report.js` builds the document from the JSON, and libraries in `assets/vendor` draw the charts.
"""

from gpuproof.report.charts import (
    Axis,
    BarChart,
    Chart,
    Event,
    Heatmap,
    Line,
    LineChart,
    Phase,
    Point,
    ScatterChart,
    Tone,
    Unit,
)
from gpuproof.report.page import (
    Bar,
    Bars,
    Block,
    Callout,
    Facts,
    Log,
    Page,
    Section,
    Status,
    Table,
    Text,
    page_json,
)
from gpuproof.report.shell import json_for_script, render, scripts, style_sheet

__all__ = [
    "Axis",
    "Bar",
    "BarChart",
    "Bars",
    "Block",
    "Callout",
    "Chart",
    "Event",
    "Facts",
    "Heatmap",
    "Line",
    "LineChart",
    "Log",
    "Page",
    "Phase",
    "Point",
    "ScatterChart",
    "Section",
    "Status",
    "Table",
    "Text",
    "Tone",
    "Unit",
    "json_for_script",
    "page_json",
    "render",
    "scripts",
    "style_sheet",
]
