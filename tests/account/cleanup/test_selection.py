"""What a command line selects: property tests over random accounts, and examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.account.cleanup.actions import calls_for
from gpuproof.account.cleanup.resource import (
    JOBS,
    Action,
    Fleet,
    HourlyCost,
    Inventory,
    Kind,
    Resource,
    is_own,
    total_of,
)
from gpuproof.account.cleanup.selection import Selection, excluded_reason, numbered, selected, shown
from gpuproof.errors import UsageError
from support.cleanup_oracle import Facts, meets_filters
from support.cleanup_oracle import named as named_by_the_oracle

NOW = 1_800_000_000.0
DAY = 86_400.0
_NAMES = st.sampled_from(["chat", "chat-2", "train", "i-0abc", "vol-1", "a", "b", "c"])
_ACTIONS = {
    Kind.NOTEBOOK: (Action.STOP, Action.DELETE, Action.NONE),
    Kind.INSTANCE: (Action.STOP, Action.TERMINATE, Action.NONE),
    Kind.WARM_POOL: (Action.RELEASE,),
    Kind.CLUSTER: (Action.NONE,),
    **dict.fromkeys(JOBS, (Action.STOP,)),
}
_TAGS = st.none() | st.dictionaries(
    st.sampled_from(["gpuproof:run", "gpuproof:job", "owner", "team"]), st.sampled_from(["x", "y"])
)


@st.composite
def resources(draw: st.DrawFn) -> Resource:
    kind = draw(st.sampled_from(Kind))
    name, region = draw(_NAMES), draw(st.sampled_from(["us-east-1", "eu-west-1"]))
    tags = draw(_TAGS)
    details = {"files": "s3://b/k1\ns3://b/k2", "AppName": name, "AppType": "JupyterLab", "DomainId": "d"}
    return Resource(
        kind,
        region,
        name,
        f"arn:aws:sagemaker:{region}:1:{kind}/{name}",
        draw(st.sampled_from(["InService", "InProgress", "running", "stopped"])),
        draw(st.sampled_from(_ACTIONS.get(kind, (Action.DELETE,)))),
        (Fleet("ml.g5.xlarge", 1),),
        draw(st.none() | st.builds(HourlyCost, st.floats(0, 100), st.booleans())),
        draw(st.booleans()),
        draw(st.none() | st.floats(NOW - 60 * DAY, NOW)),
        draw(st.none() | st.floats(0, 14 * DAY)),
        tags=tags,
        owned=is_own(tags),
        loses_data=draw(st.booleans()),
        details=details,
    )


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    found = draw(st.lists(resources(), max_size=12, unique_by=lambda one: one.key))
    return Inventory(("us-east-1", "eu-west-1"), tuple(found), (), NOW)


def keys(found: Iterable[Resource]) -> set[str]:
    return {match.key for match in found}


_SELECTIONS = st.builds(
    Selection,
    names=st.just(()),
    owned=st.booleans(),
    older_than=st.none() | st.floats(0, 60 * DAY),
    idle_for=st.none() | st.floats(0, 14 * DAY),
    kinds=st.lists(st.sampled_from(Kind), max_size=2).map(tuple),
    include_data=st.booleans(),
)


def facts(one: Resource) -> Facts:
    """What the oracle knows about a resource."""
    return Facts(
        str(one.kind),
        one.region,
        one.id,
        owned=any(key.startswith("gpuproof:") for key in one.tags or {}),
        age=None if one.created is None else NOW - one.created,
        idle=one.idle_seconds,
        holds_data=one.loses_data,
        deletable=one.action is not Action.NONE,
        runs_job=one.kind in JOBS
        or (one.kind is Kind.INSTANCE and "gpuproof:run" in (one.tags or {}) and one.state != "stopped"),
        arn=one.arn,
    )


@given(inventories(), _SELECTIONS)
def test_filters_select_exactly_what_meets_all_of_them(inventory: Inventory, selection: Selection) -> None:
    chosen = selected(inventory, selection)
    assert keys(chosen) == {
        resource.key for resource in inventory.resources if meets_filters(facts(resource), selection)
    }


@given(inventories(), _SELECTIONS)
def test_what_filters_select_is_always_listed(inventory: Inventory, selection: Selection) -> None:
    assert keys(selected(inventory, selection)) <= keys(shown(inventory, selection))


@given(inventories())
def test_without_a_selection_nothing_is_selected(inventory: Inventory) -> None:
    assert selected(inventory, Selection()) == ()
    assert selected(inventory, Selection(include_data=True)) == ()


@given(inventories(), st.sampled_from(Kind))
def test_a_kind_alone_only_narrows_the_list(inventory: Inventory, kind: Kind) -> None:
    selection = Selection(kinds=(kind,))
    assert selected(inventory, selection) == ()
    assert {entry.kind for entry in shown(inventory, selection)} <= {kind}


@given(inventories(), st.lists(_NAMES, min_size=1, max_size=3))
def test_names_select_exactly_the_resources_that_have_them(inventory: Inventory, names: list[str]) -> None:
    expected = named_by_the_oracle(map(facts, inventory.resources), names)
    if expected is None:
        # Several resources with one name are an error, so that no name ever selects two.
        with pytest.raises(UsageError, match="Nothing was deleted"):
            selected(inventory, Selection(names=tuple(names)))
        return
    chosen = selected(inventory, Selection(names=tuple(names)))
    assert keys(chosen) == expected
    assert {choice.id for choice in chosen} == set(names)


@given(inventories(), st.text("0123456789 ,-abl", max_size=12))
def test_numbers_select_those_entries_of_the_list(inventory: Inventory, text: str) -> None:
    try:
        chosen = numbered(inventory.resources, text)
    except UsageError:
        return
    wanted: set[int] = set()
    for word in text.replace(",", " ").split():
        first, _, last = word.partition("-")
        wanted.update(range(int(first), int(last or first) + 1))
    assert chosen == tuple(inventory.resources[number - 1] for number in sorted(wanted))


@given(inventories(), _SELECTIONS)
def test_the_calls_of_a_selection_name_only_what_is_selected(
    inventory: Inventory, selection: Selection
) -> None:
    for choice in selected(inventory, selection):
        calls = calls_for(choice)
        assert calls
        for call in calls:
            values = {str(value) for value in call.request.values()}
            assert any(choice.id in value or "k1" in value for value in values), call
            assert call.operation.startswith(("delete_", "stop_", "terminate_", "update_training_job"))


@given(resources())
def test_nothing_is_called_for_what_is_not_deleted(one: Resource) -> None:
    assert bool(calls_for(one)) == (one.action is not Action.NONE)


@pytest.mark.parametrize("kind", [*sorted(JOBS)])
def test_gpuproof_alone_selects_no_running_job(kind: Kind) -> None:
    job = Resource(kind, "us-east-1", "j", created=NOW - DAY, action=Action.STOP, owned=True)
    inventory = Inventory(("us-east-1",), (job,), (), NOW)
    assert selected(inventory, Selection(owned=True)) == ()
    assert "ends by itself" in (excluded_reason(job, Selection(owned=True)) or "")
    assert selected(inventory, Selection(owned=True, older_than=3600)) == (job,)
    assert selected(inventory, Selection(names=("j",))) == (job,)


def test_gpuproof_alone_selects_no_instance_of_a_run() -> None:
    tags = {"gpuproof:run": "r"}
    one = Resource(
        Kind.INSTANCE, "us-east-1", "i-1", state="running", action=Action.TERMINATE, tags=tags, owned=True
    )
    inventory = Inventory(("us-east-1",), (one,), (), NOW)
    assert selected(inventory, Selection(owned=True)) == ()


def test_an_unknown_age_is_never_old_enough() -> None:
    one = Resource(Kind.ENDPOINT, "us-east-1", "e", created=None)
    assert selected(Inventory(("us-east-1",), (one,), (), NOW), Selection(older_than=0.0)) == ()


def test_a_name_of_an_endpoint_and_its_model_needs_the_kind() -> None:
    both = (Resource(Kind.ENDPOINT, "us-east-1", "chat"), Resource(Kind.MODEL, "us-east-1", "chat"))
    inventory = Inventory(("us-east-1",), both, (), NOW)
    with pytest.raises(UsageError, match="us-east-1/endpoint/chat, us-east-1/model/chat"):
        selected(inventory, Selection(names=("chat",)))
    assert selected(inventory, Selection(names=("model/chat",))) == both[1:]
    assert selected(inventory, Selection(names=("us-east-1/endpoint/chat",))) == both[:1]


def test_a_misspelt_name_is_an_error_with_the_nearest_name() -> None:
    inventory = Inventory(("us-east-1",), (Resource(Kind.ENDPOINT, "us-east-1", "chat-endpoint"),), (), NOW)
    with pytest.raises(UsageError, match="Nothing was deleted") as found:
        selected(inventory, Selection(names=("chat-endpont",)))
    assert found.value.remedy == "Did you mean chat-endpoint?"


def test_a_cluster_is_never_deleted() -> None:
    note = "delete it yourself"
    cluster = Resource(Kind.CLUSTER, "us-east-1", "pod", action=Action.NONE, note=note, created=0.0)
    inventory = Inventory(("us-east-1",), (cluster,), (), NOW)
    assert selected(inventory, Selection(older_than=1.0, include_data=True)) == ()
    with pytest.raises(UsageError, match="is not deleted"):
        selected(inventory, Selection(names=("pod",)))
    with pytest.raises(UsageError, match="is not deleted"):
        numbered((cluster,), "1")


@pytest.mark.parametrize("text", ["0", "2", "1-2", "x", "2-1", "all"])
def test_a_number_that_is_not_in_the_list_deletes_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="Nothing was deleted"):
        numbered((Resource(Kind.ENDPOINT, "us-east-1", "e"),), text)


def test_a_total_counts_unknown_prices_and_leaves_out_what_is_free() -> None:
    one = Resource(Kind.ENDPOINT, "us-east-1", "e", cost=HourlyCost(1.5, derived=True))
    total = total_of([one, replace(one, cost=None), Resource(Kind.MODEL, "us-east-1", "m")])
    assert (total.cost, total.unknown, total.usd_per_day) == (HourlyCost(1.5, derived=True), 1, 36.0)
