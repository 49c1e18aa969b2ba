"""Create and manage SageMaker notebook instances: Jupyter on a GPU that stops when it is idle.

  gpuproof notebook create experiments --instance-type ml.g5.xlarge
  gpuproof notebook open experiments
  gpuproof notebook list

A notebook instance stops by itself after an hour in which no kernel and no GPU worked (--idle-timeout).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.cli.notebooks import create
from gpuproof.cli.notebooks.common import Session, add_name, add_region, add_timeout, confirm
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.sagemaker.notebooks.listing import ListedNotebook
    from gpuproof.cli.arguments import Subparsers

_START = """\
Start a notebook instance that is stopped, and wait until it is in service.

Its volume is as it was; all else on the machine is new. Ctrl-C leaves it starting.
"""
_STOP = """\
Stop a notebook instance: it costs nothing but its volume, which is kept. What runs on it is lost.

SageMaker does not stop an instance that is Pending; it is waited for.
"""
_OPEN = """\
Open a notebook instance in the browser, and print what the GPU check at its start found.

The address contains a token: anyone who has it can use the notebook instance, with the permissions of its role. It is valid for five
minutes. It is printed only with --no-browser.
"""
_DELETE = """\
Delete a notebook instance with its volume and all files on it. It is stopped before, if it runs.

Its lifecycle configuration and GPUproof's agent are deleted, too, if no other notebook instance uses them.
"""
_LIST = """\
List the notebook instances of the account in a region: state, type, cost, and how long they have been idle.

The cost is that of the instance since its last start, with its volume. Idle times are those that instances report which
GPUproof created, a minute old at most.
"""
_COLUMNS = ("NAME", "STATE", "TYPE", "PER DAY", "SINCE START", "IDLE", "STOPS WHEN IDLE")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof notebook` to the command line."""
    parser = add_command(commands, "notebook", "create and manage notebook instances on SageMaker", __doc__)
    parser.set_defaults(run=None)
    actions = parser.add_subparsers(metavar="create|start|stop|open|delete|list")
    create.add_parser(actions)

    start = add_command(actions, "start", "start a notebook instance", _START)
    add_name(start)
    start.add_argument("--no-wait", action="store_true", help="return while it is still Pending")
    add_timeout(start)
    start.set_defaults(run=_start)

    stop = add_command(actions, "stop", "stop a notebook instance", _STOP)
    add_name(stop)
    stop.add_argument("--no-wait", action="store_true", help="return while it is still Stopping")
    add_timeout(stop)
    stop.set_defaults(run=_stop)

    opening = add_command(actions, "open", "open a notebook instance in the browser", _OPEN)
    add_name(opening)
    opening.add_argument(
        "--no-browser", action="store_true", help="print the address instead; keep it as secret as a password"
    )
    add_timeout(opening)
    add_format_flag(opening)
    opening.set_defaults(run=_open)

    delete = add_command(actions, "delete", "delete a notebook instance and its volume", _DELETE)
    add_name(delete)
    delete.add_argument("--yes", action="store_true", help="do not ask, if GPUproof created it")
    delete.add_argument(
        "--force", action="store_true", help="do not ask for confirmation, even if another user created it"
    )
    add_timeout(delete)
    delete.set_defaults(run=_delete)

    listing = add_command(actions, "list", "list notebook instances", _LIST)
    add_region(listing)
    add_format_flag(listing)
    listing.set_defaults(run=_list)


def _start(arguments: argparse.Namespace) -> int:
    session = Session(arguments)
    with session.interruptible(arguments.name, "gpuproof notebook stop"):
        status = session.notebook(arguments.name).start(wait=not arguments.no_wait)
    print(f"{arguments.name}: {status}")
    return ExitCode.OK


def _stop(arguments: argparse.Namespace) -> int:
    session = Session(arguments)
    with session.interruptible(arguments.name, "gpuproof notebook stop"):
        status = session.notebook(arguments.name).stop(wait=not arguments.no_wait)
    print(f"{arguments.name}: {status}")
    return ExitCode.OK


def _open(arguments: argparse.Namespace) -> int:
    if not arguments.no_browser and not _has_display():
        raise UsageError(
            "There is no display to open a browser on.",
            remedy=f"gpuproof notebook open --no-browser {arguments.name} prints the address, which is a secret.",
        )
    session = Session(arguments)
    notebook = session.notebook(arguments.name)
    with session.interruptible(arguments.name, "gpuproof notebook stop"):
        url = notebook.open()
    check = notebook.gpu_check()
    if check is not None:
        session.console.label("gpu", check)
    if arguments.no_browser:
        document = {"version": 1, "notebook": arguments.name, "url": url, "gpu_check": check}
        print(json.dumps(document, indent=2) if arguments.format == "json" else url)
        return ExitCode.OK
    _open_browser(url, arguments.name)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "notebook": arguments.name, "gpu_check": check}, indent=2))
    return ExitCode.OK


def _has_display() -> bool:
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _open_browser(url: str, name: str) -> None:
    import webbrowser  # only here

    if not webbrowser.open(url):
        raise UsageError(
            "No browser could be started.",
            remedy=f"gpuproof notebook open --no-browser {name} prints the address, which is a secret.",
        )


def _delete(arguments: argparse.Namespace) -> int:
    session, name = Session(arguments), arguments.name
    notebook = session.notebook(name)
    with session.interruptible(name, "gpuproof notebook delete"):
        description, own = notebook.describe(), notebook.is_own()
        if not (arguments.force or (arguments.yes and own)):
            whose = "" if own else " GPUproof did not create it."
            question = (
                f"Delete the notebook instance {name} ({description['InstanceType']}, "
                f"{description['NotebookInstanceStatus']}) with all files on its volume?{whose}"
            )
            if not confirm(question, "--yes" if own else "--force"):
                print("Nothing was deleted.")
                return ExitCode.FAILED
        problems = notebook.delete()
    print(f"{name}: deleted")
    for problem in problems:
        print(f"gpuproof: not deleted: {problem}", file=sys.stderr)
    return ExitCode.AWS_REFUSED if problems else ExitCode.OK


def _list(arguments: argparse.Namespace) -> int:
    from gpuproof.backends.sagemaker.notebooks.listing import list_notebooks
    from gpuproof.terminal.table import render_table

    session = Session(arguments)
    found = list_notebooks(session.aws, time.time)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "notebooks": [notebook.to_json() for notebook in found]}, indent=2))
    elif found:
        print(render_table(_COLUMNS, [_row(notebook) for notebook in found]))
    else:
        print(f"There are no notebook instances in {session.aws.region}.")
    return ExitCode.OK


def _row(notebook: ListedNotebook) -> tuple[str, ...]:
    from gpuproof.util.humanize import format_duration, format_usd

    cost = notebook.usd_since_start
    return (
        notebook.name,
        notebook.status,
        notebook.instance_type,
        format_usd(notebook.usd_per_day) if notebook.usd_per_day is not None else "unknown",
        format_usd(cost) if cost is not None else "",
        format_duration(notebook.idle_seconds) if notebook.idle_seconds is not None else "",
        "yes" if notebook.watched else "no",
    )
