"""The site has a page for everything that the program has, and its links lead somewhere."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue, InstanceQuery
from gpuproof.catalogue.tables import Tables
from gpuproof.cli.assistants.guide import EXIT_CODES
from gpuproof.cli.main import COMMANDS
from gpuproof.doctor.codes import doctor_codes
from gpuproof.errors import ExitCode
from gpuproof.explain.patterns import known_errors
from gpuproof.jobs import json_schema
from gpuproof.linter.registry import all_rules
from support.built_site import BuiltSite

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

ROOT = Path(__file__).parents[2]


def test_links_and_anchors_lead_somewhere(site: BuiltSite) -> None:
    assert site.broken_links() == []


def test_a_missing_page_and_a_missing_anchor_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="there/">x</a><a href="#here">x</a><a href="#gone">x</a><p id="here">'
    )
    assert BuiltSite(tmp_path).broken_links() == ["/: there/", "/: #gone"]


def test_no_page_loads_anything_from_another_server(site: BuiltSite) -> None:
    assert site.loaded_from_elsewhere() == []


def test_each_page_is_reached_from_the_home_page(site: BuiltSite) -> None:
    assert site.unreachable() == set()


def test_each_page_of_docs_is_on_the_site(site: BuiltSite) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")]
    addresses = [f"/{page.as_posix()}/" for page in pages if page.name != "README"]
    assert [address for address in addresses if not site.has(address)] == []


def test_each_command_rule_code_and_error_has_a_page(site: BuiltSite) -> None:
    wanted = [
        *(f"/cli/{name}/" for name in COMMANDS),
        *(f"/rules/{rule.code}/" for rule in all_rules()),
        *(f"/doctor/{code}/" for code in doctor_codes()),
        *(f"/errors/{error.code}/" for error in known_errors()),
    ]
    assert [address for address in wanted if not site.has(address)] == []


def test_each_exit_code_has_an_entry_with_its_meaning(site: BuiltSite) -> None:
    text = re.sub(r"<[^>]*>", "", site.pages["/exit-codes/"].text)
    for code, meaning in EXIT_CODES.items():
        assert site.has("/exit-codes/", f"exit-code-{code}")
        assert f"{meaning.replace('`', '')}." in text
    assert set(EXIT_CODES) == {int(code) for code in ExitCode}


@pytest.mark.parametrize("kind", ["training", "processing", "endpoint", "notebook", "machine"])
def test_each_key_of_a_job_has_an_anchor(site: BuiltSite, kind: str) -> None:
    keys = json_schema()["$defs"][f"{kind.title()}Job"]["properties"]
    anchors = [f"{kind}-{key.replace('_', '-')}" for key in keys]
    assert len(anchors) > 5
    assert [anchor for anchor in anchors if not site.has("/job-file-keys/", anchor)] == []


@pytest.mark.parametrize(
    ("module", "page"), [("gpuproof", "/python/gpuproof/"), ("gpuproof.runtime", "/python/runtime/")]
)
def test_each_public_name_has_an_entry(site: BuiltSite, module: str, page: str) -> None:
    names = set(importlib.import_module(module).__all__) - {"__version__", "callbacks"}
    entries = {
        anchor.rpartition(".")[2] for anchor in site.pages[page].anchors if anchor.startswith("gpuproof.")
    }
    assert names - entries == set()


def test_the_table_of_instance_types_has_all_that_aws_offers(site: BuiltSite) -> None:
    page = site.pages["/catalogue/"].text
    instances = Catalogue(Tables(refreshed=None)).search(InstanceQuery())
    assert re.findall(r'<tr data-type="([^"]+)">', page) == [instance.name for instance in instances]
    (data,) = re.findall(r'<script type="application/json" id="catalogue-data">(.*?)</script>', page)
    assert {"us-east-1", "eu-west-1"} <= set(json.loads(data)["prices"])
    assert 'id="sources"' in page


def test_llms_txt_and_the_schema_are_at_the_root(site: BuiltSite) -> None:
    assert (site.folder / "llms.txt").read_text() == (ROOT / "llms.txt").read_text()
    assert json.loads((site.folder / "gpuproof.schema.json").read_text()) == json_schema()
