"""The guide for coding assistants names commands that exist, with options that they have."""

from __future__ import annotations

import shlex

import pytest
import yaml

from gpuproof.cli.assistants.guide import TASKS, skill
from gpuproof.cli.main import COMMANDS, main, root_parser

VALUES = {"USD": "20", "TYPE": "ml.g5.xlarge", "GPU": "A10G"}


@pytest.mark.parametrize("command", [command for task in TASKS for command in task.commands])
def test_each_command_of_a_task_is_accepted_by_its_parser(command: str) -> None:
    name, *words = [VALUES.get(word, word) for word in shlex.split(command)][1:]
    root_parser([name]).parse_args([name, *words])


def test_the_skill_has_front_matter_and_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill"]) == 0
    text = capsys.readouterr().out
    assert text == skill()
    _, front, body = text.split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields["name"] == "gpuproof"
    assert len(fields["description"]) <= 1024  # the format's limit: https://agentskills.io/specification
    assert all(f"`gpuproof {name}`" in body for name in COMMANDS)
