"""`gpuproof.cleanup`, `gpuproof.cost` and `gpuproof.audit` in Python, against an emulated account over HTTP."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from IPython.core.formatters import DisplayFormatter

import gpuproof
from gpuproof.cli.main import main
from gpuproof.errors import UsageError
from support.emulated_account import DAY, OWN, EmulatedAccount
from support.published_metrics import ended_training, publish_host

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _environment(account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in account.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "400")


def html_words(result: object) -> list[str]:
    """The words of what a notebook shows, which has to be a table."""
    shown, _ = DisplayFormatter().format(result)
    page = ElementTree.fromstring(f"<body>{shown['text/html']}</body>")
    assert page.findall("table/tbody/tr")
    assert page.find("pre") is None
    return " ".join(text for element in page.iter() if (text := element.text)).split()


def test_cleanup_lists_and_deletes_only_what_was_selected(
    account: EmulatedAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    account.endpoint("chat", age=30 * DAY)
    account.endpoint("young", age=3600.0)
    listing = gpuproof.cleanup()
    assert [resource.id for resource in listing.resources] == ["chat", "young"]
    assert listing.total.cost.usd == pytest.approx(2 * 1.408)
    assert repr(listing) == "<CleanupResult: 2 resources, $2.82 an hour, $67.58 a day>"
    assert main(["cleanup"]) == 0
    assert capsys.readouterr().out == f"{listing}\n"
    assert html_words(listing) == str(listing).split()
    deleted = gpuproof.cleanup(idle_for="7d", delete=True)
    assert [outcome.resource.id for outcome in deleted.outcomes] == ["chat"]
    assert [resource.id for resource in gpuproof.cleanup().resources] == ["young"]


def test_cleanup_deletes_nothing_that_was_not_named(account: EmulatedAccount) -> None:
    account.endpoint("chat")
    with pytest.raises(UsageError, match="needs names or a filter"):
        gpuproof.cleanup(delete=True)
    with pytest.raises(UsageError, match="'endpont' is not a kind"):
        gpuproof.cleanup(kinds="endpont")
    with pytest.raises(UsageError, match="nothing-like-it"):
        gpuproof.cleanup("nothing-like-it", delete=True)
    assert [resource.id for resource in gpuproof.cleanup().resources] == ["chat"]


def test_cost_sums_what_runs_have_cost(account: EmulatedAccount, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(gpuproof.cost(since="7d")) == "No run of the last 7d was billed."
    account.endpoint("chat", age=2 * 3600.0, tags=OWN)
    result = gpuproof.cost(by="backend")
    assert [(group.key, group.count) for group in result.groups] == [("endpoint", 1)]
    assert result.total.usd == pytest.approx(2 * 1.408, rel=0.05)
    assert main(["cost", "--by", "backend"]) == 0
    assert capsys.readouterr().out == f"{result}\n"
    assert html_words(result) == str(result).split()
    assert result.to_json()["total"]["usd"] == pytest.approx(result.total.usd, abs=1e-3)


def test_an_audit_prints_and_displays_as_the_command(
    account: EmulatedAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_host(account, "cpu", [0.0] * 30, ago=ended_training(account, "cpu"), memory=0.0)
    result = gpuproof.audit(days=2, regions="us-east-1")
    assert [(row.workload.name, row.judgement.outcome) for row in result.rows] == [("cpu", "cpu-only")]
    assert result.total.wasted_usd == pytest.approx(0.704)
    assert repr(result) == "<AuditResult: 1 GPU job in 2 days, $0.70. 1 job ran on the CPU only ($0.70).>"
    assert main(["audit", "--days", "2", "--region", "us-east-1"]) == 0
    assert capsys.readouterr().out == f"{result}\n"
    assert html_words(result) == str(result).split()
    assert gpuproof.audit(since="2d", regions=["us-east-1"], by="type").groups[0].key == "ml.g5.xlarge"
    with pytest.raises(UsageError, match="not both"):
        gpuproof.audit(days=2, since="2d")
    with pytest.raises(UsageError, match="'colour' is not a grouping"):
        gpuproof.audit(regions="us-east-1", by="colour")
