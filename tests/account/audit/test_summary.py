"""The sentence that sums up an audit."""

from __future__ import annotations

from gpuproof.account.audit.judge import NOT_MEASURED, Judgement
from gpuproof.account.audit.row import AuditRow
from gpuproof.account.audit.summary import headline, sums_of
from gpuproof.account.audit.workload import Workload
from gpuproof.account.cleanup.resource import Fleet, Kind
from gpuproof.agent.verdict import CPU_ONLY, PARTLY_USED, USED


def row(name: str, judgement: Judgement, usd: float | None = 10.0, **more: object) -> AuditRow:
    members = {"kind": Kind.TRAINING, "region": "us-east-1", "fleets": (Fleet("ml.g5.xlarge", 1),), **more}
    workload = Workload(name=name, usd_per_hour=usd, billed_seconds=3600.0, **members)  # type: ignore[arg-type]
    return AuditRow(workload, (), judgement)


USES = Judgement(USED, "")
CPU = Judgement(CPU_ONLY, "", wasted_share=1.0)


def half(idle: int, gpus: int, *, certain: bool) -> Judgement:
    return Judgement(PARTLY_USED, "", gpus=gpus, idle=idle, is_certain=certain, wasted_share=idle / gpus)


def test_the_sentence_counts_jobs_and_endpoints_and_what_was_wasted() -> None:
    rows = [
        *(row(f"cpu-{number}", CPU, 67.9) for number in range(9)),
        *(row(f"half-{number}", half(4, 8, certain=True), 268.0) for number in range(3)),
        *(row(f"used-{number}", USES) for number in range(29)),
        *(
            row(name, USES, 100.0, kind=Kind.ENDPOINT, variant=variant)
            for name in ("chat", "search")
            for variant in ("a", "b")
        ),
    ]
    assert headline(rows, "30 days") == (
        "41 GPU jobs and 2 endpoints in 30 days, $2,105. 9 jobs ran on the CPU only ($611). "
        "4 of 8 GPUs idle in 3 jobs ($402)."
    )


def test_an_upper_bound_and_unknown_costs_are_called_so() -> None:
    rows = [row("a", half(4, 8, certain=False)), row("b", Judgement(NOT_MEASURED, ""), None)]
    assert headline(rows, "7 days") == (
        "2 GPU jobs in 7 days, $10.00 and 1 unknown cost. Up to 4 of 8 GPUs idle in 1 job ($5.00). "
        "1 job not measured (cost unknown)."
    )


def test_nothing_is_a_sentence_too() -> None:
    assert headline([], "12h") == "Nothing with a GPU was billed in 12h."


def test_the_user_is_that_of_the_tags_before_the_role() -> None:
    arn = "arn:aws:sagemaker:eu-west-1:123456789012:user-profile/d-1/ann"
    rows = [
        row("a", USES, tags={"sagemaker:user-profile-arn": arn, "owner": "team"}, role="SageMakerRole"),
        row("b", CPU, tags={"owner": "team"}, role="SageMakerRole"),
        row("c", USES, tags={}, role="SageMakerRole"),
        row("d", USES, tags=None),
    ]
    sums = sums_of(rows, "user")
    assert [group.key for group in sums] == ["team", "SageMakerRole", "ann", "unknown"]
    assert sums[0].wasted_usd == 10
