"""The site in Chromium: on a desktop and a phone, light and dark, without errors, overflow or barriers."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.catalogue import Catalogue, InstanceQuery
from gpuproof.catalogue.tables import Tables
from support.axe import serious_findings
from support.browser import Page, browser_page
from support.built_site import BuiltSite

pytestmark = [pytest.mark.slow, pytest.mark.journey, pytest.mark.xdist_group("site")]

PAGES = (
    "/",
    "/quickstart/",
    "/cli/watch/",
    "/errors/torch-out-of-memory/",
    "/job-file-keys/",
    "/python/runtime/",
    "/catalogue/",
)
DESKTOP, PHONE = (1280, 1000), (390, 844)
_RECORD_ERRORS = """
window.pageErrors = [];
addEventListener("error", event => pageErrors.push(event.message || `cannot load ${event.target.src || event.target.href}`), true);
addEventListener("unhandledrejection", event => pageErrors.push(String(event.reason)));
const printed = console.error;
console.error = (...words) => { pageErrors.push(words.join(" ")); printed(...words); };
"""
_REQUESTS = """performance.getEntriesByType("resource")
.filter(entry => entry.responseStatus >= 400 || !entry.name.startsWith(location.origin)).map(entry => entry.name)"""
_OVERFLOW = """[...document.querySelectorAll("main *")]
.filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
.filter(element => { for (let up = element; up; up = up.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(up).overflowX) && up !== document.body) return false; return true; })
.map(element => element.outerHTML.slice(0, 200))"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: BuiltSite) -> Iterator[str]:
    """The address of a server of the site."""
    handler = functools.partial(_Handler, directory=str(site.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Page]:
    with browser_page(tmp_path) as page:
        page.call("Page.enable")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=_RECORD_ERRORS)
        yield page


def show(page: Page, address: str) -> None:
    """Open an address and wait until it is complete."""
    page.open(address)
    # The palette is set, and tables are enhanced, by deferred scripts.
    page.wait_for(
        f"location.href === {address!r} && document.readyState === 'complete'", f"{address} does not load"
    )


def resize(page: Page, size: tuple[int, int]) -> None:
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=size[0],
        height=size[1],
        deviceScaleFactor=1,
        mobile=size == PHONE,
    )


# Colours follow from the scheme, overflow from the size: two of the four combinations show all.
@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE)], ids=["desktop", "phone"])
def test_pages_are_shown_without_errors_overflow_and_barriers(
    browser: Page, address: str, scheme: str, size: tuple[int, int]
) -> None:
    resize(browser, size)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    problems: list[object] = []
    for path in PAGES:
        show(browser, f"{address}{path}")
        shown = browser.evaluate("document.body.dataset.mdColorScheme")
        assert shown == {"light": "default", "dark": "slate"}[scheme]
        width = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        found = [
            *browser.evaluate("pageErrors"),
            *browser.evaluate(_REQUESTS),
            *(browser.evaluate(_OVERFLOW) if width[0] > width[1] else ()),
            *serious_findings(browser),
        ]
        problems += [(path, problem) for problem in found]
    assert problems == []


def rows(page: Page) -> list[list[str]]:
    """The text of the cells of the rows that the table of instance types shows."""
    return page.evaluate(
        """[...document.querySelectorAll("#catalogue tbody tr")].filter(row => !row.hidden)
        .map(row => [...row.cells].map(cell => cell.textContent))"""
    )


def fill(page: Page, name: str, value: str) -> None:
    """Give a filter a value as a user does."""
    page.evaluate(
        f"""(() => {{ const field = document.getElementById("catalogue-filters").elements[{name!r}];
        field.value = {value!r};
        for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, {{ bubbles: true }})); }})()"""
    )


def test_the_table_of_instance_types_is_filtered(browser: Page, address: str) -> None:
    catalogue = Catalogue(Tables(refreshed=None))
    show(browser, f"{address}/catalogue/")
    browser.wait_for("!document.getElementById('catalogue-filters').hidden", "the filters do not start")
    everything = rows(browser)
    fill(browser, "gpu", "A10G")
    fill(browser, "count", "4")
    fill(browser, "region", "eu-west-1")
    fill(browser, "use", "training")
    expected = [
        instance.name
        for instance in catalogue.search(InstanceQuery(gpus=("A10G",)))
        if instance.gpu_count >= 4
        and catalogue.price(instance.name, "eu-west-1")
        and "training" in catalogue.accepted_for(f"ml.{instance.name}")
    ]
    shown = rows(browser)
    assert expected
    assert {row[0] for row in shown} == set(expected)
    price = catalogue.price(expected[0], "eu-west-1")
    assert price is not None
    ec2 = next(row[8] for row in shown if row[0] == expected[0])
    assert ec2.lstrip("~") == f"{price.usd_per_hour:.2f}"
    assert browser.evaluate("document.getElementById('catalogue-count').value").startswith(
        f"{len(expected)} of "
    )
    browser.evaluate("document.querySelector('#catalogue-filters button[type=reset]').click()")
    browser.wait_for(
        f"document.querySelectorAll('#catalogue tbody tr:not([hidden])').length === {len(everything)}",
        "reset",
    )
    assert rows(browser) == everything


def test_the_table_of_instance_types_is_sorted(browser: Page, address: str) -> None:
    show(browser, f"{address}/catalogue/")
    browser.wait_for("!!document.querySelector('#catalogue .gp-sort')", "the table cannot be sorted")
    click = "document.querySelector('#catalogue th[data-key=total] button').click()"
    browser.evaluate(click)
    ascending = [float(row[4]) for row in rows(browser)]
    assert ascending == sorted(ascending)
    browser.evaluate(click)
    assert [float(row[4]) for row in rows(browser)] == sorted(ascending, reverse=True)
    assert (
        browser.evaluate("document.querySelector('#catalogue th[data-key=total]').ariaSort") == "descending"
    )


def test_the_errors_are_filtered(browser: Page, address: str) -> None:
    show(browser, f"{address}/errors/")
    browser.wait_for("!!document.querySelector('.gp-filter input')", "the filter does not start")
    browser.evaluate(
        """(() => { const field = document.querySelector(".gp-filter input"); field.value = "cuda out of memory";
        field.dispatchEvent(new Event("input")); })()"""
    )
    shown = browser.evaluate(
        "[...document.querySelectorAll('.gp-table tbody tr')].filter(row => !row.hidden).map(row => row.cells[0].textContent)"
    )
    assert "torch-out-of-memory" in shown
    assert len(shown) < 20


# The hits are in a shadow tree that the theme adds.
_HITS = """[...document.querySelectorAll("*")].filter(element => element.shadowRoot)
.flatMap(element => [...element.shadowRoot.querySelectorAll("a")]).map(link => new URL(link.href).pathname)"""


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("out of memory", "/errors/torch-out-of-memory/"),
        ("ml.t3.2xlarge", "/guides/ml-t3-2xlarge-has-no-gpu/"),
        ("exit code 4", "/exit-codes/"),
        ("SM101", "/rules/SM101/"),
        ("D410", "/doctor/D410/"),
    ],
)
def test_the_search_finds_the_page_by_the_words_of_a_user(
    browser: Page, address: str, words: str, path: str
) -> None:
    show(browser, f"{address}/quickstart/")
    browser.evaluate("document.querySelector('.md-search__button').click()")
    focused = "document.activeElement.shadowRoot?.activeElement?.tagName === 'INPUT'"
    browser.wait_for(focused, "the search does not open")
    browser.call("Input.insertText", text=words)
    browser.wait_for(f"{_HITS}.includes({path!r})", f"{words!r} does not find {path}")
    assert path in browser.evaluate(_HITS)[:10]
    assert browser.evaluate("pageErrors") == []
