"""What a selection of `gpuproof cleanup` covers, written down from docs/cost.md and not from the code, for property tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuproof.account.cleanup.selection import Selection

JOB_KINDS = ("training-job", "processing-job", "transform-job", "tuning-job")
FREE_KINDS = (
    "model",
    "endpoint-config",
    "schedule",
    "lifecycle-config",
    "security-group",
    "run-files",
    "model-files",
)


@dataclass(frozen=True)
class Facts:
    """What decides whether a resource is covered.

    Args:
        kind: such as `endpoint`.
        region: where it is.
        name: its name or id.
        owned: whether GPUproof created it, by its tags or its name.
        age: seconds; None if unknown.
        idle: seconds for which it has certainly not been used; None if unknown.
        has_gpu: whether it pays for a GPU.
        holds_data: whether data is lost with it.
        deletable: whether GPUproof deletes it at all.
        runs_job: whether it is a running job, or an instance that runs one.
        arn: empty if it has none.
    """

    kind: str
    region: str
    name: str
    owned: bool = False
    age: float | None = None
    idle: float | None = None
    has_gpu: bool = True
    holds_data: bool = False
    deletable: bool = True
    runs_job: bool = field(default=False)
    arn: str = ""

    @property
    def key(self) -> str:
        return f"{self.region}/{self.kind}/{self.name}"

    def is_listed(self, *, everything: bool) -> bool:
        """Whether the command lists it without a name: `--all` and `--kind` list everything."""
        return everything or self.has_gpu or (self.owned and self.kind in FREE_KINDS)


def meets_filters(one: Facts, selection: Selection) -> bool:
    """Whether filters select a resource that is listed."""
    if not (selection.owned or selection.older_than is not None or selection.idle_for is not None):
        return False
    if selection.kinds and one.kind not in [str(kind) for kind in selection.kinds]:
        return False
    if selection.owned and not one.owned:
        return False
    if selection.older_than is not None and (one.age is None or one.age < selection.older_than):
        return False
    if selection.idle_for is not None and (one.idle is None or one.idle < selection.idle_for):
        return False
    if one.runs_job and selection.owned and selection.older_than is None:
        return False
    return one.deletable and (selection.include_data or not one.holds_data)


def named(found: Iterable[Facts], names: Iterable[str]) -> set[str] | None:
    """The keys that names select; None if one is unknown, ambiguous, or not deleted by GPUproof: then nothing is."""
    those = list(found)
    chosen: set[str] = set()
    for name in names:
        matching = [
            entry
            for entry in those
            if name and name in (entry.name, f"{entry.kind}/{entry.name}", entry.key, entry.arn)
        ]
        if len(matching) != 1 or not matching[0].deletable:
            return None
        chosen.add(matching[0].key)
    return chosen
