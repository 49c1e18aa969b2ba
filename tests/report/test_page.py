"""Pages as JSON and as HTML files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from gpuproof.report import Heatmap, Line, LineChart, Page, Section, Table, page_json, render
from gpuproof.report.shell import VENDOR, json_for_script, libraries
from support.report_pages import HOSTILE, example_page

_LIMIT = 500_000


class _Document(HTMLParser):
    """The elements of a document, and the texts of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.in_script = tag == "script"
        if self.in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.in_script = False

    def handle_data(self, data: str) -> None:
        if self.in_script:
            self.scripts[-1] += data


def test_texts_of_a_page_cannot_become_html() -> None:
    document = _Document(render(example_page()))
    assert [tag for tag, _ in document.tags] == [
        *("html", "head", "meta", "meta", "meta", "meta", "title", "style", "body", "div"),
        *("noscript", "h1", "p", "p", "script"),
        *["script"] * (len(document.scripts) - 1),
    ]
    data = json.loads(document.scripts[0])
    assert data["title"] == f"train-1 {HOSTILE}"
    assert data == json.loads(json.dumps(page_json(example_page())))


def test_the_policy_permits_the_scripts_of_the_page_and_no_request() -> None:
    document = _Document(render(example_page()))
    policy = next(
        attributes["content"] or ""
        for tag, attributes in document.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    allowed = set(rules["script-src"].split())
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in document.scripts[1:]
    }
    assert allowed == hashes
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert not any(attributes.get("src") or attributes.get("href") for _, attributes in document.tags)


def test_a_library_is_left_out_of_a_page_that_does_not_need_it() -> None:
    whole = render(example_page())
    without = render(Page("empty", sections=[Section("Log", [])]))
    matrix = next(library for library in libraries() if "matrix" in library.package)
    assert f"{matrix.package} v{matrix.version}" in whole
    assert f"{matrix.package} v{matrix.version}" not in without


def test_a_page_of_eight_long_charts_and_a_heatmap_of_128_gpus_is_small_enough() -> None:
    seconds = [index * 2016.0 for index in range(300)]
    hosts = [
        Line(f"algo-{host + 1}", seconds, *[[float((17 * index + host) % 101) for index in range(300)]] * 3)
        for host in range(8)
    ]
    rows = {f"algo-{gpu // 8 + 1} GPU {gpu % 8}": [gpu % 101] * 100 for gpu in range(128)}
    blocks = [
        *(LineChart(name, "percent", hosts) for name in "abcd"),
        Heatmap("all", "percent", rows, 6048.0),
    ]
    assert len(render(Page("train-1", sections=[Section("GPUs", blocks)])).encode()) < _LIMIT


@pytest.mark.parametrize("library", libraries(), ids=lambda library: library.package)
def test_a_library_is_the_one_that_its_package_has(library: Any) -> None:
    content = (VENDOR / library.file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == library.sha256
    assert f"{library.package.removesuffix('.js')}" in content[:200].decode().lower()
    assert f"v{library.version}" in content[:200].decode()
    assert "MIT" in library.license
    assert "Permission is hereby granted" in (VENDOR / library.license_file).read_text()
    assert not re.search(r"<!--|</script|https?://[^\s\"'`]+\.js\b", content.decode(), re.IGNORECASE)


def test_every_library_and_license_is_in_the_table() -> None:
    named = {name for library in libraries() for name in (library.file, library.license_file)}
    assert {file.name for file in VENDOR.iterdir()} == {*named, "libraries.csv"}


def test_even_steps_are_written_as_start_and_step() -> None:
    even = Line("a", [10.0, 12.5, 15.0], [1.0, None, 3.0]).to_json()
    assert even == {"label": "a", "values": [1, None, 3], "start": 10, "step": 2.5}
    uneven = Line("a", [0.0, 1.0, 5.0], [1.0, 2.0, 3.0], [0, 0, 0], [4, 4, 4]).to_json()
    assert uneven["seconds"] == [0, 1, 5]
    assert (uneven["low"], uneven["high"]) == ([0, 0, 0], [4, 4, 4])


def test_a_line_has_as_many_values_as_seconds() -> None:
    with pytest.raises(ValueError, match="'GPU 0'"):
        Line("GPU 0", [0.0, 1.0], [1.0])


def test_values_that_json_does_not_have_are_unknown() -> None:
    assert Line("a", [0, 1], [float("nan"), float("inf")]).to_json()["values"] == [None, None]


def test_a_text_that_is_not_unicode_can_be_written() -> None:
    page = Page("train\udcff", sections=[Section("x", [Table(["a"], [["b\udcff"]])])])
    assert "train?" in render(page)
    assert "b?" in json_for_script(page_json(page))
