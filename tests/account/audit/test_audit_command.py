"""`gpuproof audit` against an emulated account, over HTTP."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuproof.errors import ExitCode
from gpuproof_emulator.store import PROCESSING
from support.cli_sandbox import CliSandbox
from support.emulated_account import DAY, EmulatedAccount
from support.published_metrics import ended_training, publish, publish_host

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "ci.md"
ONE = ("--region", "us-east-1")


def audit(cli: CliSandbox, *words: str, code: int = 0) -> dict[str, Any]:
    done = cli.gpuproof("audit", *words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in document["rows"]}


def test_jobs_are_judged_by_what_cloudwatch_has_of_their_gpus(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    publish_host(account, "busy", [90.0] * 30, ago=ended_training(account, "busy"))
    publish_host(account, "cpu", [0.0] * 30, ago=ended_training(account, "cpu"), memory=0.0)
    publish_host(account, "held", [0.0] * 30, ago=ended_training(account, "held"), memory=12.0)
    half = ended_training(account, "half", instance="ml.g5.48xlarge")
    publish_host(account, "half", [395.0] * 30, ago=half)
    ended_training(account, "silent")
    document = audit(cli, *ONE)
    found = rows(document)
    assert {name: row["verdict"] for name, row in found.items()} == {
        "busy": "used",
        "cpu": "cpu-only",
        "held": "idle",
        "half": "partly used",
        "silent": "not measured",
    }
    assert found["busy"]["mean_utilization"] == 90
    assert found["cpu"]["wasted_usd"] == found["cpu"]["usd"] > 0
    assert found["cpu"]["cpu_cores"] == 4
    assert (found["half"]["gpus_idle_at_most"], found["half"]["gpus"]) == (4, 8)
    assert found["half"]["is_certain"] is False
    assert found["half"]["wasted_usd"] == pytest.approx(found["half"]["usd"] / 2, abs=1e-3)
    assert document["summary"].startswith("5 GPU jobs in 30 days, $")
    assert "1 job ran on the CPU only ($" in document["summary"]
    assert "Up to 4 of 8 GPUs idle in 1 job ($" in document["summary"]


def test_every_kind_of_thing_with_a_gpu_is_listed_and_nothing_else(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    account.job("small", instance="ml.m5.large")
    account.job("processing", kind=PROCESSING)
    account.transform("transform", seconds=600, status="Completed")
    publish_host(account, "transform", [40.0] * 10, ago=3540, host="i-0123456789abcdef0", word="Transform")
    account.endpoint("chat", age=2 * DAY)
    account.endpoint("plain", instance="ml.m5.large")
    account.notebook("work")
    account.notebook("stopped", status="Stopped")
    instance = account.instance()
    account.instance(instance="m5.large")
    found = rows(audit(cli, *ONE))
    assert {name: (row["kind"], row["verdict"]) for name, row in found.items()} == {
        "processing": ("processing-job", "not measured"),
        "transform": ("transform-job", "used"),
        "chat": ("endpoint", "not measured"),
        "work": ("notebook", "not measured"),
        instance: ("instance", "not measured"),
    }
    assert found["processing"]["running"] is True
    assert "nvidia_gpu" in found[instance]["reason"]
    assert "%gpu watch on" in found["work"]["reason"]


def test_the_gpus_of_an_ec2_instance_with_the_cloudwatch_agent_are_judged_one_by_one(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    instance = account.instance(instance="g5.12xlarge")
    moment = account.client("ec2", "us-east-1").describe_instances(InstanceIds=[instance])
    launched = moment["Reservations"][0]["Instances"][0]["LaunchTime"]
    assert launched
    for index in range(4):
        dimensions = {"InstanceId": instance, "index": str(index), "name": "NVIDIA A10G", "arch": "Ampere"}
        publish(
            account,
            "CWAgent",
            dimensions,
            {"nvidia_smi_utilization_gpu": [90.0 if index < 3 else 0.0]},
            ago=0,
        )
    row = rows(audit(cli, *ONE))[instance]
    assert row["verdict"] == "partly used"
    assert row["is_certain"] is True
    assert (row["gpus_working_at_least"], row["gpus_idle_at_most"]) == (3, 1)
    assert "gpu 3 did nothing" in row["reason"]


def test_sums_by_user_tag_type_and_week(account: EmulatedAccount, cli: CliSandbox) -> None:
    profile = "arn:aws:sagemaker:us-east-1:123456789012:user-profile/d-1/ann"
    ended_training(account, "a", tags={"sagemaker:user-profile-arn": profile, "team": "vision"})
    ended_training(account, "b", tags={"gpuproof:user": "bob", "team": "vision"})
    ended_training(account, "c", instance="ml.g5.2xlarge")
    by_user = {group["key"]: group for group in audit(cli, *ONE, "--by", "user")["groups"]}
    assert set(by_user) == {"ann", "bob", "SageMakerRole"}
    by_team = {group["key"]: group for group in audit(cli, *ONE, "--by", "tag:team")["groups"]}
    assert {key: group["count"] for key, group in by_team.items()} == {"vision": 2, "-": 1}
    by_type = {group["key"]: group for group in audit(cli, *ONE, "--by", "type")["groups"]}
    assert set(by_type) == {"ml.g5.xlarge", "ml.g5.2xlarge"}
    assert audit(cli, *ONE, "--by", "week")["groups"][0]["key"].startswith("20")
    done = cli.gpuproof("audit", *ONE, "--by", "colour")
    assert done.returncode == ExitCode.USAGE
    assert "tag:KEY" in done.stderr


def test_fail_over_exits_with_4_if_more_was_wasted(account: EmulatedAccount, cli: CliSandbox) -> None:
    publish_host(account, "cpu", [0.0] * 30, ago=ended_training(account, "cpu"), memory=0.0)
    wasted = audit(cli, *ONE)["total"]["wasted_usd"]
    assert wasted > 0
    audit(cli, *ONE, "--fail-over", str(wasted + 0.01))
    audit(cli, *ONE, "--fail-over", str(wasted - 0.01), code=ExitCode.GPU_UNUSED)


def test_csv_has_a_line_for_each_row(account: EmulatedAccount, cli: CliSandbox) -> None:
    publish_host(account, "cpu", [0.0] * 30, ago=ended_training(account, "cpu"), memory=0.0)
    done = cli.gpuproof("audit", *ONE, "--format", "csv")
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["name"], row["verdict"]) for row in table] == [("cpu", "cpu-only")]


def test_html_is_a_page_beside_the_text_or_in_its_place(account: EmulatedAccount, cli: CliSandbox) -> None:
    publish_host(account, "cpu", [0.0] * 30, ago=ended_training(account, "cpu"), memory=0.0)
    done = cli.gpuproof("audit", *ONE, "--html", "audit.html")
    assert done.returncode == 0, done.stderr
    assert "cpu-only" in done.stdout
    page = (cli.project / "audit.html").read_text(encoding="utf-8")
    assert "<title>GPU audit ($" in page
    assert "Utilization of the GPUs" in page
    done = cli.gpuproof("audit", "cpu", *ONE, "--html", "-")
    assert done.stdout.startswith("<!doctype html>"), done.stderr
    assert "<title>Audit of cpu (cpu-only)" in done.stdout
    done = cli.gpuproof("audit", *ONE, "--html", "-", "--json")
    assert (done.returncode, "both be written to standard output" in done.stderr) == (2, True)


def test_jobs_of_two_weeks_are_read_within_the_quota_of_cloudwatch(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    for day in range(1, 15):
        for number in range(3):
            name = f"job-{day}-{number}"
            ago = ended_training(account, name, hours_ago=24 * day + 3 * number)
            publish_host(account, name, [90.0] * 30, ago=ago)
    found = rows(audit(cli, *ONE))
    assert len(found) == 42
    assert {row["verdict"] for row in found.values()} == {"used"}
    assert account.requests("GetMetricData") < 10


def test_nothing_is_changed_and_all_regions_are_read_by_default(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    ended_training(account, "far", region="eu-west-1")
    done = cli.gpuproof("audit")
    assert done.returncode == 0, done.stderr
    assert "far" in done.stdout
    assert account.changes() == []


def test_a_region_without_permission_is_named_and_the_others_are_read(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    ended_training(account, "seen", region="us-east-1")
    ended_training(account, "hidden", region="eu-west-1")
    account.fault("access-denied,service=sagemaker,region=eu-west-1")
    done = cli.gpuproof("audit", "--region", "us-east-1", "--region", "eu-west-1")
    assert done.returncode == ExitCode.AWS_REFUSED
    assert "seen" in done.stdout
    assert "hidden" not in done.stdout
    assert "training jobs could not be read in eu-west-1: no permission for sagemaker:Search" in done.stderr
    assert "gpuproof iam policy --on audit" in done.stderr


def test_the_pipeline_of_the_page_fails_if_too_much_was_wasted_and_keeps_the_page(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    documents = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
    (workflow,) = (document for document in documents if document.get("name") == "GPU waste")
    steps = workflow["jobs"]["audit"]["steps"]
    (command,) = (step["run"] for step in steps if step.get("run", "").startswith("gpuproof audit"))
    began = ended_training(account, "idle", instance="ml.p5.48xlarge", minutes=120)
    publish_host(account, "idle", [0.0] * 120, ago=began)
    done = cli.gpuproof(*shlex.split(command)[1:], *ONE)
    assert done.returncode == ExitCode.GPU_UNUSED, done.stderr
    assert steps[-1]["with"]["path"] == "audit.html"
    assert "idle" in (cli.project / "audit.html").read_text()
