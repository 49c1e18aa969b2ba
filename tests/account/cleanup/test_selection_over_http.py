"""Property tests over HTTP: after `gpuproof cleanup --delete`, exactly what was selected is gone.

Random resources are created in an emulated account with boto3, and the real command deletes a random selection. The oracle
(`support.cleanup_oracle`) is written from docs/cost.md.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st

from gpuproof.account.cleanup.resource import Kind
from gpuproof.account.cleanup.selection import Selection
from gpuproof.cli.main import main
from support.cleanup_oracle import meets_filters, named
from support.cleanup_world import REGIONS, Existing, Item, create, expected, items, settled
from support.emulated_account import DAY, EmulatedAccount

pytestmark = pytest.mark.slow

_WORLDS = st.lists(items(), min_size=6, max_size=9, unique_by=lambda one: (one.kind, one.region, one.name))
_TIMES = [(True, None, None), (True, 2 * DAY, None), (False, 2 * DAY, None), (False, None, 2 * DAY)]
_KINDS = st.sampled_from([Kind.ENDPOINT, Kind.NOTEBOOK, Kind.MODEL, Kind.INSTANCE, Kind.TRAINING])
_FILTERS = st.builds(
    lambda chosen, kinds, data: Selection((), *chosen, tuple(kinds), include_data=data),
    st.sampled_from([*_TIMES, (True, 2 * DAY, 2 * DAY)]),
    st.just([]) | st.just([]) | st.lists(_KINDS, min_size=1, max_size=2, unique=True),
    st.booleans(),
)
_EVERYTHING = [
    Item("endpoint", "us-east-1", "e-shared", True, "ml.g5.xlarge", True, False, False, True),
    *(
        Item(
            kind,
            region,
            f"{kind[0]}-{'mine' if owned else 'theirs'}",
            owned,
            instance,
            True,
            owned,
            owned,
            shares,
        )
        for owned, region, shares in ((True, "us-east-1", False), (False, "us-east-1", True))
        for kind, instance in (
            ("endpoint", "ml.g5.xlarge"),
            ("notebook", "ml.g5.xlarge"),
            ("training-job", "ml.g5.xlarge"),
            ("instance", "p3.2xlarge"),
            ("volume", ""),
            ("model", ""),
            ("schedule", ""),
        )
    ),
]
"""Everything once with a tag of GPUproof, stopped or updated before, and once without; and an endpoint with a shared configuration."""

_SEARCHED = st.sampled_from([REGIONS, REGIONS[1:], REGIONS[:1]])
_HTTP = settings(
    deadline=None,
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],  # an example takes a second: shrinking would take minutes
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_REFUSED = [
    f"service={service},operation={operation}"
    for service, operations in {
        "tagging": "GetResources",
        "monitoring": "GetMetricData",
        "scheduler": "ListSchedules DeleteSchedule",
        "s3": "ListObjectsV2 DeleteObjects",
        "ec2": "StopInstances TerminateInstances",
        "sagemaker": "ListEndpointConfigs ListModels DescribeEndpointConfig ListTransformJobs ListTags Search "
        "DeleteEndpoint DeleteEndpointConfig DeleteModel",
    }.items()
    for operation in operations.split()
]


@pytest.fixture
def account(account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch) -> EmulatedAccount:
    """The account, which commands in this process reach."""
    for name, value in account.environment.items():
        monkeypatch.setenv(name, value)
    return account


def cleanup(*words: str) -> tuple[int, str]:
    """The exit code and the output of the command, in this process."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = main(["cleanup", *words])
    return int(code), output.getvalue()


def words_of(selection: Selection, regions: Sequence[str], *, everything: bool) -> list[str]:
    """The command line of a selection."""
    words = [f"--region={name}" for name in regions]
    words += [f"--kind={kind}" for kind in selection.kinds]
    flags = (
        (selection.owned, "--gpuproof"),
        (selection.include_data, "--include-data"),
        (everything, "--all"),
    )
    words += [flag for wanted, flag in flags if wanted]
    for seconds, flag in ((selection.older_than, "--older-than"), (selection.idle_for, "--idle-for")):
        words += [f"{flag}={seconds:.0f}s"] if seconds is not None else []
    return words


def check(account: EmulatedAccount, before: dict[str, Any], found: list[Existing], keys: set[str]) -> None:
    """The account differs from before by exactly what these resources are, with their dependents."""
    covered = [match for match in found if match.facts.key in keys]
    halted = {key for item in covered for key in item.halted}
    event(f"{len(covered)} deleted")
    assert settled(account.state(*REGIONS), halted) == expected(before, covered)


def begin(account: EmulatedAccount, those: list[Item]) -> tuple[list[Existing], dict[str, Any]]:
    """An account with only these things, and its state."""
    account.reset()
    found = create(account, those)
    return found, account.state(*REGIONS)


@_HTTP
@example(those=_EVERYTHING, selection=Selection(owned=True), regions=REGIONS, everything=False)
@example(
    those=_EVERYTHING,
    selection=Selection(owned=True, older_than=2 * DAY, include_data=True),
    regions=REGIONS,
    everything=True,
)
@example(those=_EVERYTHING, selection=Selection(older_than=2 * DAY), regions=REGIONS, everything=True)
@example(those=_EVERYTHING, selection=Selection(idle_for=2 * DAY), regions=REGIONS, everything=False)
@given(those=_WORLDS, selection=_FILTERS, regions=_SEARCHED, everything=st.booleans())
def test_filters_delete_exactly_what_they_cover(
    account: EmulatedAccount,
    those: list[Item],
    selection: Selection,
    regions: Sequence[str],
    *,
    everything: bool,
) -> None:
    found, before = begin(account, those)
    code, output = cleanup(*words_of(selection, regions, everything=everything), "--delete", "--yes")
    shown = everything or bool(selection.kinds)
    covered = {
        match.facts.key
        for match in found
        if match.facts.region in regions
        and match.facts.is_listed(everything=shown)
        and meets_filters(match.facts, selection)
    }
    assert code == 0, output
    check(account, before, found, covered)


@_HTTP
@given(_WORLDS, st.data(), _SEARCHED)
def test_names_delete_exactly_what_has_them(
    account: EmulatedAccount, those: list[Item], data: st.DataObject, regions: Sequence[str]
) -> None:
    found, before = begin(account, those)
    searched = [match.facts for match in found if match.facts.region in regions]
    exact = [name for item in searched for name in (item.key, item.arn) if name]
    short = [name for match in found for name in (match.facts.name, f"{match.facts.kind}/{match.facts.name}")]
    some = st.lists(st.sampled_from(exact or short), min_size=1, max_size=4)
    names = data.draw(some | st.builds(lambda those, one: [*those, one], some, st.sampled_from(short)))
    covered = named(searched, names)
    words = [f"--region={name}" for name in regions]
    code, output = cleanup(*words, *names, "--delete", "--yes")
    assert code == (2 if covered is None else 0), output
    check(account, before, found, covered or set())


@_HTTP
@given(those=_WORLDS, selection=_FILTERS, refused=st.sampled_from(_REFUSED), everything=st.booleans())
def test_whatever_aws_refuses_nothing_else_is_deleted(
    account: EmulatedAccount,
    those: list[Item],
    selection: Selection,
    refused: str,
    *,
    everything: bool,
) -> None:
    found, before = begin(account, those)
    account.fault(f"access-denied,{refused}")
    cleanup(*words_of(selection, REGIONS, everything=everything), "--delete", "--yes")
    account.emulator.context.faults.clear()
    covered = [match for match in found if meets_filters(match.facts, selection)]
    after = settled(account.state(*REGIONS), {key for item in covered for key in item.halted})
    allowed = expected(before, covered)
    assert {key: after.get(key) for key, value in allowed.items() if value != "stopped"} == {
        key: value for key, value in allowed.items() if value != "stopped"
    }
    assert after.keys() <= before.keys()


def test_without_delete_and_without_an_answer_nothing_changes(account: EmulatedAccount) -> None:
    """The listing of a whole account, as JSON and as text."""
    found, before = begin(
        account,
        [
            Item(kind, "us-east-1", f"{kind[0]}-a", True, instance, True, False, extra, False)
            for kind, instance, extra in (
                ("endpoint", "ml.g5.xlarge", True),
                ("notebook", "ml.g5.xlarge", False),
                ("training-job", "ml.g5.xlarge", False),
                ("instance", "g5.xlarge", False),
                ("volume", "", False),
                ("model", "", False),
                ("schedule", "", False),
            )
        ],
    )
    code, output = cleanup("--all", "--format=json")
    assert code == 0
    assert {resource["key"] for resource in json.loads(output)["resources"]} == {
        match.facts.key for match in found
    }
    assert cleanup("--all", "--gpuproof", "--older-than=0s")[0] == 0
    assert account.state(*REGIONS) == before
    assert account.changes() == []
