"""Tables and paragraphs as HTML, read back with a parser."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from gpuproof.terminal.html import blocks_html, folded_html, labelled_html
from gpuproof.terminal.table import Table

NASTY = "<script>alert('x')</script> & \"more\""


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<body>{html}</body>")


def test_a_table_has_a_cell_for_each_cell() -> None:
    page = parsed(blocks_html([Table(("NAME", "USD"), (("a", "1"), ("b", "2")), right=(1,))]))
    assert [cell.text for cell in page.iter("th")] == ["NAME", "USD"]
    assert [[cell.text for cell in row] for row in page.findall("table/tbody/tr")] == [["a", "1"], ["b", "2"]]
    assert ["text-align:right" in cell.get("style", "") for cell in page.iter("td")] == [False, True] * 2


def test_text_is_never_markup() -> None:
    table = Table((NASTY,), ((NASTY,),))
    html = blocks_html([NASTY, table]) + labelled_html(NASTY, [(NASTY, NASTY)]) + folded_html(NASTY, [NASTY])
    page = parsed(html)
    assert not list(page.iter("script"))
    assert [element.text for element in page.iter() if element.text].count(NASTY) == 8


def test_a_link_can_be_clicked_but_no_other_scheme_and_no_sentence() -> None:
    texts = ("https://example.com/?a=1&b=2", "javascript:alert(1)", "https://example.com is a page")
    page = parsed(labelled_html("run", [("address", text) for text in texts]))
    assert [link.get("href") for link in page.iter("a")] == [texts[0]]


def test_code_keeps_its_places_and_paragraphs_break() -> None:
    table = Table(("SOURCE", "FINDING", "ID"), (("  x = 1\n  ^", "long", "7"),), paragraphs=(1,), code=(0,))
    source, finding, name = parsed(blocks_html([table])).iter("td")
    assert source.text == "  x = 1\n  ^"
    assert "monospace" in source.get("style", "")
    assert [
        re.findall(r"white-space:([\w-]+)", cell.get("style", "")) for cell in (source, finding, name)
    ] == [
        ["pre"],
        ["pre-wrap"],
        ["nowrap"],
    ]


def test_a_long_list_says_how_many_more_there_are() -> None:
    assert "and 10 more" in folded_html("60 files", ["file"] * 60)
