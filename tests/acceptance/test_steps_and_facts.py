"""The table of steps: what it costs, what it confirms, and what of it docs/limits.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.facts import NOT_IN_THE_HOUR, facts
from acceptance.recording import confirmed_facts
from acceptance.step import Step
from acceptance.steps import PREFIX, STEPS, total_usd
from acceptance.target import Target, current_target

ROOT = Path(__file__).parents[2]
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/gpuproof-acceptance-missing:1"
_NAMES = [step.name for step in STEPS]


def test_all_steps_cost_less_than_five_dollars_and_little_more_than_an_hour() -> None:
    assert total_usd("us-east-1") < 5
    assert sum(step.minutes for step in STEPS) <= 75


def test_each_fact_is_confirmed_by_one_step_or_is_said_to_be_by_none() -> None:
    confirmed = [fact for step in STEPS for fact in step.facts]
    assert len(confirmed) == len(set(confirmed))
    # By all commands together, if the user has nothing but the printed policies.
    of_the_hour = {fact.id for fact in facts().values() if fact.area != NOT_IN_THE_HOUR}
    assert {*confirmed, "user-policies"} == of_the_hour


def test_facts_have_a_source_that_can_be_opened_or_say_that_there_is_none() -> None:
    assert [
        fact.id
        for fact in facts().values()
        if not fact.source.startswith("https://") and fact.source != "no document"
    ] == []


@pytest.mark.parametrize("step", STEPS, ids=_NAMES)
def test_a_step_refers_to_earlier_steps_and_names_what_it_creates(step: Step) -> None:
    index = STEPS.index(step)
    known = {*_NAMES[:index], "pulled", "results", "missing_image", "hang_limit", "idle_timeout"}
    words = STEPS[index].words
    assert set(re.findall(r"\{(.+?)\}", words)) <= known
    assert [name for name in re.findall(r"--name (\S+)", words) if not name.startswith(PREFIX)] == []


def test_what_a_step_starts_ends_before_the_last_step() -> None:
    for step in STEPS:
        if step.name.endswith("-start"):
            assert step.group
            assert [other.name for other in STEPS if other.group == step.group][-1] != step.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [step for step in STEPS if re.match("(run|deploy handler|transform|notebook create) ", step.words)],
    ids=lambda step: step.name,
)
def test_the_command_of_a_step_can_be_planned_for_aws(step: Step, tmp_path: Path) -> None:
    Target("aws", 20.0, {}).write_project(tmp_path)
    values = {
        "hang_limit": "10m",
        "idle_timeout": "10m",
        "results": "s3://bucket/results",
        "missing_image": IMAGE,
    }
    words = [word.format_map(values) for word in step.words.split() if word not in ("--detach", "--dry-run")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": "us-east-1",
        "GPUPROOF_STATE_DIR": str(tmp_path / "state"),
    }
    command = [sys.executable, "-m", "gpuproof", *words, "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["calls"]


def test_nothing_is_done_without_a_yes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "AWS_REGION": "us-east-1"}
    environment.pop("AWS_ENDPOINT_URL", None)
    command = [sys.executable, "-m", "acceptance", "--folder", str(tmp_path)]
    done = subprocess.run(command, env=environment, input="\n", capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert f"{total_usd('us-east-1'):.2f}" in done.stdout
    assert list((tmp_path / "answers").iterdir()) == []


def test_a_region_without_prices_is_refused() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-m", "acceptance", "--region", "xx-nowhere-1", "--yes"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "the catalogue has no price of g4dn.xlarge in xx-nowhere-1: choose another region\n"


def test_an_account_has_no_simulated_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert current_target(None).backend == "aws"
    with pytest.raises(ValueError, match="simulated-gpu"):
        current_target(tmp_path)


def test_the_pages_name_the_facts_that_no_account_has_confirmed() -> None:
    command = [sys.executable, str(ROOT / "tools" / "build_unconfirmed_facts.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run tools/build_unconfirmed_facts.py"


def test_the_page_says_what_the_steps_cost() -> None:
    text = (ROOT / "docs" / "acceptance.md").read_text("utf-8")
    assert f"${total_usd('us-east-1'):.2f}" in text


def test_no_fact_counts_as_confirmed_without_a_recording_of_an_account() -> None:
    assert confirmed_facts() <= set(facts())
