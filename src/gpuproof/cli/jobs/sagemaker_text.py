"""A plan for SageMaker in words, and as JSON."""

from __future__ import annotations

from typing import Any

from gpuproof.agent.contract import script_arguments
from gpuproof.backends.sagemaker.plan import SageMakerPlan, plan_calls
from gpuproof.backends.sagemaker.planning.agent_job import container_order, unused_rule
from gpuproof.backends.sagemaker.requests.common import Target, max_runtime
from gpuproof.backends.sagemaker.requests.training import max_wait
from gpuproof.backends.sagemaker.submission.aws_call import to_json
from gpuproof.jobs.spec import TrainingJob
from gpuproof.units import Duration
from gpuproof.util.humanize import format_bytes, format_usd, pluralize


def describe(plan: SageMakerPlan) -> list[tuple[str, str]]:
    """What a run on SageMaker will do, as labelled lines."""
    job, target = plan.job, plan.target
    order = container_order(job, plan.run_id, target.name, target.expected)
    tree = plan.tree
    lines = [
        ("script", " ".join([job.entry_point, *script_arguments(order)])),
        (
            "code",
            f"{pluralize(len(tree.files), 'file')}, {format_bytes(tree.total_bytes)} from {job.source_dir}",
        ),
        ("image", f"{target.image.uri} ({target.image.because})"),
        ("instance", _instances(plan)),
        ("GPU", _gpu(plan)),
        *_inputs(plan),
        *_outputs(plan),
        ("role", plan.role.arn + (f" ({plan.role.because})" if plan.role.because else "")),
        ("bucket", plan.bucket.name + (" (to be made)" if plan.bucket.calls else "")),
        ("limit", _limit(plan)),
    ]
    if isinstance(job, TrainingJob) and job.resources.spot:
        lines.append(("spot", _spot(job)))
    return [*lines, *(("note", note) for note in plan.notes)]


def dry_run_document(plan: SageMakerPlan) -> dict[str, Any]:
    """The plan and the calls as JSON, version 1; variables of the environment are hidden."""
    return {
        "version": 1,
        "place": "sagemaker",
        "run": plan.run_id,
        "region": plan.region,
        "instance_types": [
            {
                "name": target.name,
                "most_usd": plan.most_usd(target),
                "usd_per_hour": target.candidate.price.usd_per_hour if target.candidate.price else None,
                "image": target.image.uri,
            }
            for target in plan.targets
        ],
        "order": plan.document(plan.target),
        "notes": list(plan.notes),
        "calls": [to_json(call) for call in plan_calls(plan)],
    }


def _instances(plan: SageMakerPlan) -> str:
    count = f"{plan.job.instance_count} x " if plan.job.instance_count > 1 else ""
    first, *others = [f"{target.name}{_price(target)}" for target in plan.targets]
    dates = {target.candidate.price.as_of for target in plan.targets if target.candidate.price}
    as_of = f"; list prices in {plan.region} as of {min(dates)}" if dates else ""
    rest = f"\nelse {', '.join(others)}" if others else ""
    return f"{count}{first}{as_of}{rest}"


def _price(target: Target) -> str:
    price = target.candidate.price
    return "" if price is None else f" at {format_usd(price.usd_per_hour)} an hour"


def _gpu(plan: SageMakerPlan) -> str:
    expected = plan.target.expected
    if not expected.count:
        return f"none asked for ({expected.because})"
    # Of the rule that a job gets by default a note tells more.
    rule = unused_rule(plan.job, expected) if plan.job.if_gpu_unused is not None else None
    idle = ""
    if rule is not None:
        words = {"stop": "stopped", "fail": "failed", "warn": "warned of"}
        idle = f"; {words[rule.action]} where it is not touched in {Duration(int(rule.grace))}"
    return f"{expected.count} x {expected.name or 'any model'} asked for ({expected.because}){idle}"


def _inputs(plan: SageMakerPlan) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, address in plan.addresses.inputs.items():
        folder = plan.cargo.folders.get(name)
        what = (
            address
            if folder is None
            else f"{pluralize(len(folder.files), 'file')}, {format_bytes(folder.total_bytes)}"
        )
        if folder is not None:
            what += f" from {folder.root}"
        given = plan.job.inputs[name]
        where = f"/opt/ml/input/data/{name}" if isinstance(given, str) else given.path
        lines.append(("input", f"{where} is {what}"))
    return lines


def _outputs(plan: SageMakerPlan) -> list[tuple[str, str]]:
    job, addresses = plan.job, plan.addresses
    if isinstance(job, TrainingJob):
        lines = [("output", _to(addresses.output, job.output))]
        if addresses.checkpoints is not None:
            lines.append(("checkpoint", addresses.checkpoints))
        return lines
    return [
        ("output", f"{outlet.path} goes to {_to(addresses.outputs[key], outlet.destination)}")
        for key, outlet in job.outputs.items()
    ]


def _to(address: str, wanted: str | None) -> str:
    return address if wanted is None or wanted == address else f"{address}, and at the end to {wanted}"


def _limit(plan: SageMakerPlan) -> str:
    runtime = Duration(max_runtime(plan.job))
    costs = [(most, target.name) for target in plan.targets if (most := plan.most_usd(target)) is not None]
    if not costs:
        return f"stopped after {runtime}"
    first, dearest = plan.most_usd(plan.target), max(costs)
    text = f"stopped after {runtime}; at most "
    if first is None or dearest[0] > first:
        dear = f"{format_usd(dearest[0])} on {dearest[1]}"
        return text + (dear if first is None else f"{format_usd(first)} on {plan.target.name}, {dear}")
    return f"{text}{format_usd(first)} on demand"


def _spot(job: TrainingJob) -> str:
    wait = Duration(max_wait(job))
    return f"spot capacity: cheaper, may be taken away and goes on from checkpoints; {wait} for waiting and running"
