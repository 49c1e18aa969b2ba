"""What to do after a call of a tool: the next tools with their arguments, from the fields of its JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.cli.assistants.tools import SCRIPT_ARGUMENTS
from gpuproof.errors import ExitCode


@dataclass(frozen=True)
class Answer:
    """What a call of a tool returned.

    Args:
        arguments: those of the call.
        exit_code: of the command.
        document: its JSON document; empty if it printed none.
    """

    arguments: Mapping[str, Any]
    exit_code: int
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """A next step.

    Args:
        tool: the tool to call; None for a command that the user has to type.
        arguments: of the tool; words in capitals are to be replaced.
        reason: why, as an infinitive: "to see …".
        command: what the user has to type, without a tool.
    """

    tool: str | None
    arguments: Mapping[str, Any]
    reason: str
    command: str = ""


def next_steps(tool: str, answer: Answer) -> list[Step]:
    """The steps that follow a call, the likeliest first; none after a wrong call, whose error says what to change."""
    if answer.exit_code in (ExitCode.USAGE, ExitCode.INTERNAL_ERROR, ExitCode.INTERRUPTED):
        return []
    return list(_STEPS[tool](answer)) if answer.document else []


def _after_check(answer: Answer) -> Iterator[Step]:
    codes = [found["code"] for found in answer.document["findings"] if found["severity"] != "note"]
    if codes:
        yield Step("rule", {"code": codes[0]}, "to read why it matters and what to write instead")
        yield Step("check", answer.arguments, "to check again when the findings are fixed")
        return
    paths: list[str] = answer.arguments.get("paths") or []
    script = next((path for path in paths if path.endswith(".py")), "SCRIPT")
    yield Step(
        "plan", {"script": script}, "to see on which GPU the script fits, how long it takes and what it costs"
    )


def _after_rule(_: Answer) -> Iterator[Step]:
    yield Step("check", {"paths": ["."]}, "to check again when the finding is fixed")


def _after_plan(answer: Answer) -> Iterator[Step]:
    best = answer.document.get("recommendation")
    if best is not None:
        yield Step(
            "run",
            {
                "target": answer.arguments.get("script", "gpuproof.yaml"),
                **_given(answer, "job", "input", "region", SCRIPT_ARGUMENTS),
                "on": best["service"],
                "instance_type": best["instance_type"],
                **({"spot": True} if best["market"] == "spot" else {}),
                "max_duration": "TIME",
                "dry_run": True,
            },
            "to see the requests and the highest possible cost of a run on the recommended instance type",
        )
    elif answer.document.get("gpus"):
        largest = answer.document["gpus"][-1]["gpu"]
        yield Step("plan", {**answer.arguments, "fit": largest}, "to see what would make it fit")


def _after_gpus(answer: Answer) -> Iterator[Step]:
    instance = answer.document.get("instance")
    if instance is not None:
        yield Step(
            "plan", {"script": "SCRIPT", "gpu": instance["gpu_model"]}, "to see whether a script fits its GPU"
        )
        return
    for listed in answer.document.get("instances", [])[:1]:
        region = _given(answer, "region")
        yield Step(
            "gpus", {"names": [listed["type"]], **region}, "to see all facts and prices of the first of them"
        )


def _after_explain(answer: Answer) -> Iterator[Step]:
    explanations = answer.document["explanations"]
    if any("out-of-memory" in found["code"] for found in explanations):
        yield Step("plan", {"script": "SCRIPT"}, "to see which batch size and which GPU fit")
    elif explanations or not answer.document["failed"]:
        yield Step("check", {"paths": ["."]}, "to find further mistakes before the next run")
    else:
        yield Step("doctor", {}, "to check the GPU stack of the machine on which it failed")


def _after_doctor(answer: Answer) -> Iterator[Step]:
    if answer.exit_code == ExitCode.FAILED:
        yield Step(None, {}, "to install a framework build that fits this GPU", "gpuproof doctor --fix")
    elif answer.exit_code == ExitCode.UNDECIDED:
        yield Step("gpus", {}, "to choose an instance type on AWS: this machine has no GPU")
    else:
        yield Step("check", {"paths": ["."]}, "to find mistakes in the script before it runs")


def _after_ps(answer: Answer) -> Iterator[Step]:
    for run in answer.document["runs"][:1]:
        place = {"run_name": run["id"], "on": run["backend"], **_given(answer, "region")}
        yield Step("verdict", place, "to see whether the newest run used its GPU")
    if not answer.document["runs"]:
        yield Step("check", {"paths": ["."]}, "to check a job before its first run")


def _after_verdict(answer: Answer) -> Iterator[Step]:
    run, verdict = answer.document["run"], answer.document["verdict"]
    place = {"on": run["backend"], **_given(answer, "region")}
    if run.get("ended") is None:
        yield Step("verdict", {"run_name": run["id"], **place}, "to look again: the run has not ended")
        yield Step("stop", {"run_names": [run["id"]], **place}, "to end it")
        return
    code = answer.document["exit_code"]  # the run's; that of the command is 0
    if code == ExitCode.FAILED:
        yield Step("explain", {"target": run["id"], **place}, "to find out why it failed")
    elif code == ExitCode.GPU_UNUSED or verdict is None:
        yield Step("check", {"paths": [run.get("source_dir", ".")]}, "to find out why the GPU did no work")
    flags = f" --on {run['backend']}" + (f" --region {run['region']}" if run.get("region") else "")
    yield Step(None, {}, "to copy its artifacts and logs", f"gpuproof pull {run['id']}{flags}")


def _after_audit(answer: Answer) -> Iterator[Step]:
    wasteful = [row for row in answer.document.get("rows", ()) if row["wasted_usd"]]
    for row in wasteful[:1]:
        arguments = {"job": row["name"], "region": [row["region"]]}
        yield Step("audit", arguments, "to see the largest waste in detail")
    if not wasteful:
        yield Step("cleanup", _given(answer, "region"), "to see what costs money now")


def _after_cleanup(answer: Answer) -> Iterator[Step]:
    resources = answer.document["resources"]
    for resource in resources:
        if resource["kind"] == "endpoint":
            names = {"names": [resource["id"]], "region": resource["region"]}
            yield Step("delete", names, "to delete it, if it is no longer needed")
            break
    if resources:
        yield Step(None, {}, "to choose what to delete", "gpuproof cleanup --delete")
    else:
        yield Step(None, {}, "to see what runs have cost", "gpuproof cost")


def _after_run(answer: Answer) -> Iterator[Step]:
    if answer.arguments.get("dry_run"):
        arguments = {name: value for name, value in answer.arguments.items() if name != "dry_run"}
        yield Step("run", arguments, "to start it")
    elif (run := answer.document.get("id")) is not None:
        place = {"run_name": run, **_given(answer, "on", "region")}
        yield Step("verdict", place, "to see how it goes on, and at its end whether it used its GPU")


def _after_deploy(answer: Answer) -> Iterator[Step]:
    if answer.arguments.get("dry_run"):
        arguments = {name: value for name, value in answer.arguments.items() if name != "dry_run"}
        yield Step("deploy", arguments, "to deploy it")
        return
    name, region = answer.document["endpoint"], answer.document["region"]
    yield Step(None, {}, "to send it data", f"gpuproof predict {name} --data FILE --region {region}")
    yield Step("delete", {"names": [name], "region": region}, "to delete it before its ttl ends")


def _after_stop(answer: Answer) -> Iterator[Step]:
    names: list[str] = answer.arguments.get("run_names") or []
    for name in names[:1]:
        place = {"run_name": name, **_given(answer, "on", "region")}
        yield Step("verdict", place, "to see what it did until then")


def _after_delete(answer: Answer) -> Iterator[Step]:
    yield Step("cleanup", _given(answer, "region"), "to see whether anything is left that costs money")


def _given(answer: Answer, *names: str) -> dict[str, Any]:
    """Those of the arguments that the call has."""
    return {name: answer.arguments[name] for name in names if answer.arguments.get(name) is not None}


_STEPS: dict[str, Callable[[Answer], Iterator[Step]]] = {
    "check": _after_check,
    "rule": _after_rule,
    "plan": _after_plan,
    "gpus": _after_gpus,
    "explain": _after_explain,
    "doctor": _after_doctor,
    "ps": _after_ps,
    "verdict": _after_verdict,
    "audit": _after_audit,
    "cleanup": _after_cleanup,
    "run": _after_run,
    "deploy": _after_deploy,
    "stop": _after_stop,
    "delete": _after_delete,
}
