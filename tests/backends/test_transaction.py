"""Transactions against an account in memory: every step, every moment and every fault, and generated plans with several faults.

Afterwards, nothing exists that was not kept on purpose, the notes name exactly what remains, and no interrupt is lost.
"""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.interrupts import Terminated, sigterm_interrupts
from gpuproof.backends.transaction import Remaining, Step, Transaction, Undo, describe_remaining
from gpuproof.errors import GPUproofError


def _raise(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


def _ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def _sigterm() -> None:
    signal.raise_signal(signal.SIGTERM)


def _raised_ctrl_c() -> None:
    raise KeyboardInterrupt


CERTAIN: dict[str, Callable[[], None]] = {
    "refused": _raise(AwsRefused("AccessDenied", code="AccessDenied")),
    "capacity": _raise(AwsRefused("none left", code="InsufficientInstanceCapacity")),
    "quota": _raise(AwsRefused("limit", code="ResourceLimitExceeded")),
    "throttled": _raise(AwsRefused("slower", code="ThrottlingException")),
    "unreachable": _raise(AwsUnreachable("no route")),
}
"""Errors after which it is certain that nothing was done."""

UNCERTAIN: dict[str, Callable[[], None]] = {
    "lost": _raise(AwsUnreachable("connection lost", maybe_done=True)),
    "internal error": _raise(AwsRefused("InternalFailure", code="InternalFailure", maybe_done=True)),
}
INTERRUPTS: dict[str, Callable[[], None]] = {
    "Ctrl-C": _ctrl_c,
    "SIGTERM": _sigterm,
    "raised": _raised_ctrl_c,
}
FAULTS = {**CERTAIN, **UNCERTAIN, **INTERRUPTS}


@dataclass
class Account:
    """What exists, and the faults that are injected: `(action, name, number of the request)` to `(moment, fault)`."""

    faults: Mapping[tuple[str, str, int], tuple[str, str]] = field(
        default_factory=dict[tuple[str, str, int], tuple[str, str]]
    )
    existing: list[str] = field(default_factory=list[str])
    requests: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    interrupts: int = 0
    unknown: set[str] = field(default_factory=set[str])
    """Those in whose deletion a fault came."""

    def create(self, name: str) -> str:
        self._request("create", name, self.existing.append)
        return name

    def create_once(self, name: str) -> str:
        """A creation that returns what exists, as with a client token."""
        self._request("create", name, lambda _: None if name in self.existing else self.existing.append(name))
        return name

    def lookup(self, name: str) -> str | None:
        self._request("lookup", name, lambda _: None)
        return name if name in self.existing else None

    def delete(self, name: str) -> None:
        self._request("delete", name, lambda _: self.existing.remove(name) if name in self.existing else None)

    def _request(self, action: str, name: str, effect: Callable[[str], object]) -> None:
        self.requests[action, name] += 1
        moment, fault = self.faults.get((action, name, self.requests[action, name]), ("", ""))
        if moment == "before":
            self._inject(action, name, fault)
        effect(name)
        if moment == "after":
            self._inject(action, name, fault)

    def _inject(self, action: str, name: str, fault: str) -> None:
        self.interrupts += fault in INTERRUPTS
        if action == "delete":
            self.unknown.add(name)
        FAULTS[fault]()


@dataclass(frozen=True)
class Resource:
    """One resource of a plan."""

    name: str
    lookup: bool = True
    """Whether a lost creation is looked up; else, it is repeated with a client token."""
    holds: bool = False
    needed: bool = False
    interrupts: int | None = None
    kept: bool = False

    def step(self, account: Account) -> Step[str]:
        undo = Undo(
            self.name,
            lambda: account.delete(self.name),
            f"delete {self.name}",
            self.holds,
            self.needed,
            self.interrupts,
            kept_after=lambda _error: self.kept,
            remedy=f"aws delete {self.name}",
        )
        if self.lookup:
            return Step(
                f"create {self.name}",
                lambda: account.create(self.name),
                (undo,),
                lambda: account.lookup(self.name),
                attempts=3,
            )
        return Step(f"create {self.name}", lambda: account.create_once(self.name), (undo,), attempts=3)


class Notes:
    """A progress that records the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def step(self, text: str) -> None:
        del text

    def transfer(self, text: str, done: int, total: int) -> None:
        raise AssertionError(text, done, total)

    def report(self, label: str, text: str) -> None:
        self.notes.append(text)

    def hold_interrupt(self) -> None:
        raise AssertionError


@dataclass
class Outcome:
    """How a transaction ended."""

    error: BaseException | None
    remaining: list[Remaining]
    notes: list[str]


def run(
    account: Account,
    plan: Iterable[Resource],
    finish: Callable[[Transaction], None] = lambda _transaction: None,
) -> Outcome:
    """Execute a plan, and check what is true after any faults."""
    plan = tuple(plan)
    progress, remaining = Notes(), list[Remaining]()

    def describe(left: Remaining) -> str:
        remaining.append(left)
        return describe_remaining(left)

    error: BaseException | None = None
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with sigterm_interrupts():
        try:
            with Transaction(progress, describe=describe, sleep=lambda _seconds: None) as transaction:
                for resource in plan:
                    assert transaction.execute(resource.step(account)) == resource.name
                finish(transaction)
        except (GPUproofError, KeyboardInterrupt) as raised:
            error = raised
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers

    assert isinstance(error, KeyboardInterrupt) == bool(account.interrupts)
    assert len(set(account.existing)) == len(account.existing)  # nothing was created twice
    if error is None:
        assert sorted(account.existing) == sorted(resource.name for resource in plan)
        assert remaining == []
    else:
        named = {left.undo.what for left in remaining if left.reason != "kept"}
        kept = {left.undo.what for left in remaining if left.reason == "kept"}
        assert set(account.existing) <= named | kept
        assert named <= {*account.existing, *account.unknown}
        assert kept <= {resource.name for resource in plan if resource.kept}
        assert all(any(name in note for note in progress.notes) for name in named)
    return Outcome(error, remaining, progress.notes)


PLAN = (
    Resource("bucket", lookup=False),
    Resource("model"),
    Resource("record", needed=True),
    Resource("instance", holds=True, interrupts=3),
    Resource("scaling", lookup=False),
)
NAMES = [resource.name for resource in PLAN]
MOMENTS = [
    *(("before", fault) for fault in FAULTS),
    *(("after", fault) for fault in (*UNCERTAIN, *INTERRUPTS)),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("moment", "fault"), MOMENTS)
def test_after_a_fault_at_any_step_nothing_or_everything_exists(name: str, moment: str, fault: str) -> None:
    account = Account({("create", name, 1): (moment, fault)})
    outcome = run(account, PLAN)
    assert (outcome.error is None) == (fault in UNCERTAIN)  # a lost response is looked up, or repeated
    assert account.existing == (NAMES if outcome.error is None else [])
    assert outcome.notes == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("fault", UNCERTAIN)
def test_responses_that_are_lost_for_good_leave_nothing(name: str, moment: str, fault: str) -> None:
    account = Account({("create", name, number): (moment, fault) for number in range(1, 4)})
    outcome = run(account, PLAN)
    found = moment == "after" and next(resource for resource in PLAN if resource.name == name).lookup
    assert account.existing == (NAMES if found else [])
    assert outcome.notes == []


@pytest.mark.parametrize("fault", CERTAIN)
def test_a_refusal_after_a_lost_response_does_not_mean_that_nothing_exists(fault: str) -> None:
    for name in ("bucket", "scaling"):
        account = Account({("create", name, 1): ("after", "lost"), ("create", name, 2): ("before", fault)})
        outcome = run(account, PLAN)
        assert outcome.error is not None
        assert account.existing == []


@pytest.mark.parametrize("name", ["model", "record", "instance"])
@pytest.mark.parametrize("lost", ["before", "after"])
@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_in_a_lookup_nothing_exists(name: str, lost: str, fault: str) -> None:
    account = Account({("create", name, 1): (lost, "lost"), ("lookup", name, 1): ("before", fault)})
    outcome = run(account, PLAN)
    assert outcome.error is not None
    assert account.existing == []
    assert outcome.notes == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", ["refused", "lost", "Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize(("moment", "fault"), MOMENTS)
def test_after_a_fault_in_any_undo_the_rest_is_undone(name: str, first: str, moment: str, fault: str) -> None:
    faults = {("delete", name, 1): (moment, fault)}
    account = Account({("create", "late", number): ("before", first) for number in range(1, 4)} | faults)
    outcome = run(account, (*PLAN, Resource("late")))
    if fault in CERTAIN:
        left = ["record", "instance"] if name == "instance" else [name]
        assert account.existing == left
        assert sorted(remaining.undo.what for remaining in outcome.remaining) == sorted(left)
        assert any(f"{name}: " in note and f"aws delete {name}" in note for note in outcome.notes)
    else:
        assert account.existing == []
        assert outcome.remaining == []
    if fault in ("Ctrl-C", "SIGTERM") and name != "instance":
        assert account.requests["delete", name] == 1  # it was deferred


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", UNCERTAIN)
def test_an_undo_that_is_never_answered_is_named(name: str, fault: str) -> None:
    lost = {("delete", name, number): ("before", fault) for number in range(1, 4)}
    account = Account({("create", "late", 1): ("before", "refused"), **lost})
    outcome = run(account, (*PLAN, Resource("late")))
    assert name in account.existing
    assert {remaining.undo.what for remaining in outcome.remaining} == set(account.existing)


@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.parametrize(("allowed", "given"), [*itertools.product([1, 3], [0, 1, 2, 3])])
def test_an_undo_that_waits_is_given_up_after_so_many_interrupts(
    interrupt: str, allowed: int, given: int
) -> None:
    again = {("delete", "endpoint", number): ("before", interrupt) for number in range(1, given + 1)}
    account = Account({("create", "late", 1): ("before", "Ctrl-C"), **again})
    plan = (Resource("config", needed=True), Resource("endpoint", holds=True, interrupts=allowed))
    outcome = run(account, (*plan, Resource("late")))
    given_up = given >= allowed
    assert account.existing == (["config", "endpoint"] if given_up else [])
    assert [left.reason for left in outcome.remaining] == (["interrupted", "in use"] if given_up else [])


def test_an_interrupt_while_an_error_is_undone_is_raised_and_the_error_noted() -> None:
    account = Account(
        {("create", "late", 1): ("before", "refused"), ("delete", "model", 1): ("after", "SIGTERM")}
    )
    outcome = run(account, (*PLAN, Resource("late")))
    assert isinstance(outcome.error, Terminated)
    assert isinstance(outcome.error.__cause__, AwsRefused)
    assert outcome.notes == ["AccessDenied"]


def test_what_is_kept_on_purpose_is_not_undone_and_not_noted() -> None:
    account = Account({("create", "job", 1): ("before", "capacity")})
    outcome = run(account, (Resource("upload", kept=True), Resource("code"), Resource("job")))
    assert account.existing == ["upload"]
    assert [left.reason for left in outcome.remaining] == ["kept"]
    assert outcome.notes == []


@pytest.mark.parametrize("interrupt", ["Ctrl-C", "SIGTERM"])
def test_after_the_commit_an_interrupt_waits_for_the_end_and_nothing_is_undone(interrupt: str) -> None:
    account, reported = Account(), list[str]()

    def finish(transaction: Transaction) -> None:
        transaction.commit()
        account.interrupts += 1
        INTERRUPTS[interrupt]()
        reported.append("deployed")

    outcome = run_committed(account, finish)
    assert isinstance(outcome, Terminated if interrupt == "SIGTERM" else KeyboardInterrupt)
    assert reported == ["deployed"]
    assert account.existing == NAMES


def run_committed(account: Account, finish: Callable[[Transaction], None]) -> BaseException | None:
    with sigterm_interrupts():
        try:
            with Transaction() as transaction:
                for resource in PLAN:
                    transaction.execute(resource.step(account))
                finish(transaction)
        except KeyboardInterrupt as interrupt:
            return interrupt
    return None


def test_an_undo_that_is_noted_twice_is_made_once_and_forgotten_once() -> None:
    deleted: list[str] = []
    undo = Undo("delete the record", lambda: deleted.append("record"))

    def refuse() -> None:
        raise AwsRefused("AccessDenied", code="AccessDenied")

    with pytest.raises(AwsRefused), Transaction() as transaction:
        transaction.note(undo, undo)
        transaction.execute(Step("write the record again", refuse, (undo,)))
    assert deleted == ["record"]


def test_undos_with_the_same_phrase_are_all_made() -> None:
    deleted: list[str] = []
    with pytest.raises(KeyboardInterrupt), Transaction() as transaction:
        for name in ("a", "b"):
            transaction.note(Undo("delete the files", lambda name=name: deleted.append(name)))
        raise KeyboardInterrupt
    assert deleted == ["b", "a"]


def in_use(error: AwsRefused) -> bool:
    return error.code == "ResourceInUse"


@pytest.mark.parametrize("shared", [True, False])
def test_what_others_have_created_is_not_undone(shared: bool) -> None:
    existing = ["theirs"]

    def create() -> str:
        raise AwsRefused("exists", code="ResourceInUse")

    def later() -> None:
        raise AwsRefused("AccessDenied", code="AccessDenied")

    undo = Undo("delete theirs", existing.clear)
    step = Step("create", create, (undo,), lambda: None, in_use=in_use, shared=shared)
    with pytest.raises(AwsRefused) as raised, Transaction(sleep=lambda _seconds: None) as transaction:
        assert transaction.execute(step) is None
        transaction.execute(Step("more", later))
    assert raised.value.code == ("AccessDenied" if shared else "ResourceInUse")
    assert existing == ["theirs"]


def test_what_becomes_visible_later_is_found() -> None:
    slept: list[float] = []

    def create() -> str:
        raise AwsUnreachable("lost", maybe_done=True)

    def lookup() -> str | None:
        return "job" if len(slept) == 2 else None

    with Transaction(sleep=slept.append) as transaction:
        assert transaction.execute(Step("create", create, lookup=lookup)) == "job"
    assert slept == [2.0, 5.0]


def unavailable(name: str, error: GPUproofError) -> UnavailableType | None:
    if isinstance(error, AwsRefused) and (error.is_capacity or error.is_quota):
        return UnavailableType(name, error.code, error.message)
    return None


def no_capacity(tried: list[UnavailableType]) -> NoCapacity:
    return NoCapacity("no type", "", tried)


CANDIDATES = ("g5", "g6", "p4d")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_only_missing_capacity_and_quota_lead_to_the_next_candidate(
    fault: str, number: int, moment: str
) -> None:
    if fault in CERTAIN and moment == "after":
        moment = "before"
    faults = {("create", name, 1): ("before", "capacity") for name in CANDIDATES[:number]}
    account = Account({**faults, ("create", CANDIDATES[number], 1): (moment, fault)})
    created: list[str] = []
    tried: list[str] = []

    def finish(transaction: Transaction) -> None:
        refusals: list[UnavailableType] = []
        name = transaction.first_available(
            CANDIDATES,
            lambda name: transaction.execute(Resource(name).step(account)),
            unavailable,
            no_capacity,
            refusals,
        )
        created.append(str(name))
        tried.extend(refusal.name for refusal in refusals)

    if fault in ("capacity", "quota"):
        number += 1
    if number == len(CANDIDATES):
        outcome = run(account, (Resource("code"),), finish)
        assert isinstance(outcome.error, NoCapacity)
        assert [refusal.name for refusal in outcome.error.tried] == list(CANDIDATES)
        assert account.existing == []
    elif fault in ("refused", "throttled", "unreachable", *INTERRUPTS):
        outcome = run(account, (Resource("code"),), finish)
        assert outcome.error is not None
        assert account.existing == []
    else:
        with Transaction(sleep=lambda _seconds: None) as transaction:
            finish(transaction)
        assert created == account.existing == [CANDIDATES[number]]
        assert tried == list(CANDIDATES[:number])


resources = st.builds(
    Resource,
    name=st.just(""),
    lookup=st.booleans(),
    holds=st.booleans(),
    needed=st.booleans(),
    interrupts=st.sampled_from([None, 1, 3]),
    kept=st.booleans(),
)
certain = st.tuples(st.just("before"), st.sampled_from(sorted(CERTAIN)))
others = st.tuples(st.sampled_from(["before", "after"]), st.sampled_from(sorted({**UNCERTAIN, **INTERRUPTS})))


@given(data=st.data(), plan=st.lists(resources, min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_any_plan_with_any_faults_leaves_only_what_is_kept_or_named(data: Any, plan: list[Resource]) -> None:
    named = [replace(resource, name=str(number)) for number, resource in enumerate(plan)]
    places = st.tuples(
        st.sampled_from(["create", "create", "lookup", "delete"]),
        st.sampled_from([resource.name for resource in named]),
        st.integers(1, 4),
    )
    faults = data.draw(st.dictionaries(places, st.one_of(certain, others), max_size=5))
    account = Account(faults)
    outcome = run(account, named)
    # What remains was kept, is needed by what could not be removed, or a fault came in its undo.
    for left in outcome.remaining:
        assert left.reason in ("kept", "in use") or left.undo.what in account.unknown
