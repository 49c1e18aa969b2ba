"""Every command, as a user who has exactly what `gpuproof iam policy` prints, with the roles that it prints.

The emulator enforces IAM. With all printed actions every command passes; without one, the command that needs it fails with an error
that names the action and the command that prints the policy.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

import pytest

from gpuproof.cli.main import COMMANDS

from .account import Done, actions_of, permissions
from .options import LOCAL_COMMANDS, SAME_REQUESTS, SAME_REQUESTS_EVERYWHERE
from .steps import NEEDED_OF_THE_ROLE, SAGEMAKER, USERS, Step, User

EACH_USER = pytest.mark.parametrize("user", USERS, ids=lambda user: user.name)


def options_of_commands() -> dict[str, set[str]]:
    """The options of each command and subcommand, by its words."""
    found: dict[str, set[str]] = {}

    def walk(words: str, parser: argparse.ArgumentParser) -> None:
        subcommands = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        for action in subcommands:
            for name, child in action.choices.items():
                walk(f"{words} {name}", child)
        if not subcommands:
            shown = (each for each in parser._actions if each.help != argparse.SUPPRESS)
            found[words] = {flag for action in shown for flag in action.option_strings[-1:]}

    for name, command in COMMANDS.items():
        parsers = argparse.ArgumentParser().add_subparsers()
        import_module(f"gpuproof.cli.{command.module}").add_parser(parsers)
        walk(name, parsers.choices[name])
    return found


def command_of(step: Step) -> str:
    """The command of a step, with its subcommand."""
    return " ".join(step.words[: 2 if step.words[0] in ("notebook", "baseline") else 1])


def test_every_command_and_every_option_is_in_the_table() -> None:
    run: dict[str, set[str]] = {}
    for step in (step for user in USERS for step in user.steps):
        run.setdefault(command_of(step), set()).update(word for word in step.words if word.startswith("--"))
    options = options_of_commands()
    assert set(run) | set(LOCAL_COMMANDS) == set(options)
    assert not set(run) & set(LOCAL_COMMANDS)
    missing = {
        f"{command} {flag}"
        for command, flags in options.items()
        if command in run
        for flag in flags - run[command] - SAME_REQUESTS.get(command, set()) - SAME_REQUESTS_EVERYWHERE
        # A switch has two names.
        if flag.replace("--no-", "--", 1) not in run[command]
    }
    assert missing == set(), "add them to a step in steps.py, or to options.py"


@pytest.mark.slow
@EACH_USER
def test_each_command_passes_with_the_printed_permissions(user: User, tmp_path: Path) -> None:
    used: set[str] = set()
    with permissions(tmp_path, user) as account:
        for step in user.steps:
            done = account.run(step)
            assert done.denied == frozenset(), f"{step}\n{done.output}"
            assert done.code == step.code, f"{step}\n{done.output}"
            used |= done.used
        if user.complete:
            assert account.actions - used == set(user.unused)
        if user.unused_by_roles is not None:
            used_by_roles = account.role_actions()
            assert actions_of(account.printed_for_roles) - used_by_roles == set(user.unused_by_roles)


@pytest.mark.slow
@pytest.mark.nightly
@EACH_USER
def test_without_an_action_the_command_that_needs_it_says_so(user: User, tmp_path: Path) -> None:
    if not user.complete:
        pytest.skip("the actions are removed from another user")
    cheapest = cheapest_steps(user, tmp_path / "first")
    wrong: list[str] = []
    with permissions(tmp_path / "second", user) as account:
        for step in user.steps:
            # What succeeds without an action comes last: it changes the account.
            for action in sorted(cheapest.get(step, ()), key=lambda name: (name in user.optional, name)):
                if not step.fresh:
                    account.remove(action)
                    done = account.run(step)
                    wrong += problems_without(action, step, done, user)
            account.remove(None)
            done = account.run(step)
            if done.code != step.code:
                wrong.append(f"afterwards, {step}: exit code {done.code}\n{done.output}")
    alone = [(step, action) for step in user.steps if step.fresh for action in cheapest.get(step, ())]
    for number, (step, action) in enumerate(alone):
        with permissions(tmp_path / f"fresh-{number}", user) as account:
            if step.after is not None:
                account.run(step.after)
            account.remove(action)
            wrong += problems_without(action, step, account.run(step), user)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.nightly
def test_without_an_action_of_its_role_a_job_fails_and_says_so(tmp_path: Path) -> None:
    wrong: list[str] = []
    with permissions(tmp_path, SAGEMAKER) as account:
        for step, actions in NEEDED_OF_THE_ROLE.items():
            for action in actions:
                account.remove_from_role("gpuproof-sagemaker", action)
                wrong += problems_without(action, step, account.run(step), SAGEMAKER)
            account.remove_from_role("gpuproof-sagemaker", None)
            done = account.run(step)
            if done.code != step.code:
                wrong.append(f"afterwards, {step}: exit code {done.code}\n{done.output}")
    assert not wrong, "\n\n".join(wrong)


def cheapest_steps(user: User, folder: Path) -> dict[Step, list[str]]:
    """For each step, the actions that no step with fewer actions uses."""
    used: dict[Step, frozenset[str]] = {}
    with permissions(folder, user) as account:
        for step in user.steps:
            used[step] = account.run(step).used & account.actions
    found: dict[Step, list[str]] = {}
    for action in sorted(frozenset().union(*used.values())):
        steps = [step for step in user.steps if action in used[step] - step.spare]
        assert steps, f"{action} is optional: no command needs it"
        found.setdefault(min(steps, key=lambda step: len(used[step])), []).append(action)
    return found


def problems_without(action: str, step: Step, done: Done, user: User) -> list[str]:
    """What is wrong with the end of a command that lacked an action."""
    what = f"without {action}: %s\n$ gpuproof {step}\n{done.output}"
    if (note := user.optional.get(action)) is not None:
        return [] if note in done.output else [what % f"it does not say '{note}'"]
    if done.code == step.code and step.code == 0:
        return [what % "it succeeds"]
    missing = [text for text in (action, user.hint) if text not in done.output]
    return [what % f"the error does not name {' and '.join(missing)}"] if missing else []
