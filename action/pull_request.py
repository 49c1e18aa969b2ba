"""Comments on a pull request with what `gpuproof check` found, and what the changed jobs need and cost; one comment, kept current.

    python pull_request.py FINDINGS.json

Python's standard library only. It reads GitHub's variables (GITHUB_EVENT_PATH, GITHUB_REPOSITORY, GITHUB_API_URL, GITHUB_TOKEN) and
PLAN, the programs of `gpuproof plan` to run on changed job files, separated by line breaks; empty for no plans. Without a pull
request, or without permission to comment, it changes nothing and says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARKER = "<!-- gpuproof check -->"
JOB_FILES = ("gpuproof.yaml", "gpuproof.yml")
MAX_FINDINGS = 50
"""Rows of the table; GitHub refuses comments of more than 65,536 characters."""
PLAN_SECONDS = 900
_SECRETS = ("GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN")
"""Variables that the scripts of a pull request must not see."""


def main() -> int:
    """Create or update the comment; always exits with 0, because the check decides about success."""
    number = pull_request_number()
    if number is None:
        return 0
    findings = json.loads(Path(sys.argv[1]).read_bytes())
    try:
        changed = set(changed_files(number))
        text = comment(findings, changed, plans(changed))
        publish(number, text)
    except (urllib.error.URLError, TimeoutError) as error:
        reason = str(error)
        if isinstance(error, urllib.error.HTTPError) and error.code in (401, 403, 404):
            reason = f"{error}: the job needs `permissions: pull-requests: write`, which forks do not have"
        print(f"::notice title=gpuproof::No comment on the pull request: {reason}.")
    return 0


def pull_request_number() -> int | None:
    """The number of the pull request that started the workflow; None for other events."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    event = json.loads(Path(path).read_bytes()) if path else {}
    return event.get("pull_request", {}).get("number")


def comment(document: dict[str, Any], changed: set[str], plans: list[dict[str, Any]]) -> str:
    """The comment in Markdown; empty if there is nothing to say.

    Args:
        document: the output of `gpuproof check --format json`.
        changed: the files that the pull request changes; their findings come first.
        plans: the outputs of `gpuproof plan --json`.
    """
    findings = [finding for finding in document["findings"] if finding["severity"] != "note"]
    findings.sort(key=lambda finding: finding["location"].get("file") not in changed)
    if not findings and not plans:
        return ""
    lines = [MARKER, "### GPUproof", ""]
    if findings:
        inside = sum(finding["location"].get("file") in changed for finding in findings)
        lines += [f"{len(findings)} findings, {inside} of them in files that this pull request changes.", ""]
        lines += ["| where | what | |", "|---|---|---|", *map(finding_row, findings[:MAX_FINDINGS])]
        if len(findings) > MAX_FINDINGS:
            lines.append(f"\n{len(findings) - MAX_FINDINGS} more are in the log of the check.")
    else:
        lines.append("No errors and no warnings.")
    if plans:
        lines += [
            "",
            "| job | batch size | GPU memory | fits on | time | cost |",
            "|---|---|---|---|---|---|",
        ]
        lines += map(plan_row, plans)
        lines += ["", "Estimated without a GPU by `gpuproof plan`; ranges are in its output."]
    return "\n".join(lines) + "\n"


def finding_row(finding: dict[str, Any]) -> str:
    """A row of the table of findings."""
    location = finding["location"]
    where = cell(f"{location.get('file')}:{location.get('line')}")
    page = f"https://github.com/gpuproof/gpuproof/blob/main/docs/rules/{finding['code']}.md"
    text = " ".join([finding["message"], finding.get("remedy") or ""]).strip()
    return f"| {where} | {cell(text)} | [{finding['code']}]({page}) {finding['severity']} |"


def plan_row(plan: dict[str, Any]) -> str:
    """A row of the table of plans: the recommended instance type."""
    choice = plan["recommendation"]
    types = {offer["instance_type"]: gpu for gpu in plan["gpus"] for offer in gpu["offers"]}
    gpu = types[choice["instance_type"]]
    memory = gpu["memory"]["required"]["value"] / 2**30
    seconds, cost = choice["seconds"]["value"], choice["usd"]["value"]
    name = f"{choice['instance_type']}{' (spot)' if choice['market'] == 'spot' else ''}"
    cells = [
        plan["path"],
        str(plan["batch_size"]),
        f"{memory:.1f} GiB",
        name,
        duration(seconds),
        f"${cost:.2f}",
    ]
    return f"| {' | '.join(map(cell, cells))} |"


def plans(changed: set[str]) -> list[dict[str, Any]]:
    """The plans of the changed job files that can be planned; why others cannot is in the log."""
    program = [word for word in os.environ.get("PLAN", "").split("\n") if word]
    if not program:
        return []
    found: list[dict[str, Any]] = []
    for path in sorted(path for path in changed if Path(path).name in JOB_FILES and Path(path).is_file()):
        environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
        try:
            done = subprocess.run(
                [*program, path, "--json"],
                env=environment,
                stdout=subprocess.PIPE,
                timeout=PLAN_SECONDS,
                check=False,
            )
            plan = json.loads(done.stdout or b"null") if done.returncode in (0, 1) else None
        except (subprocess.TimeoutExpired, ValueError):
            plan = None
        if plan is not None and plan.get("recommendation") is not None:
            found.append({**plan, "path": path})
        else:
            print(f"::notice title=gpuproof::{path} cannot be planned; the reason is in the log above.")
    return found


def changed_files(number: int) -> Iterator[str]:
    """The files that a pull request adds or changes."""
    for file in pages(f"pulls/{number}/files"):
        if file["status"] != "removed":
            yield file["filename"]


def publish(number: int, text: str) -> None:
    """Create the comment, or update the earlier one; an earlier one is updated even if nothing is found any more."""
    earlier = next((each for each in pages(f"issues/{number}/comments") if MARKER in each["body"]), None)
    if earlier is not None:
        text = text or f"{MARKER}\n### GPUproof\n\nNo errors and no warnings.\n"
        if earlier["body"].strip() != text.strip():
            request("PATCH", f"issues/comments/{earlier['id']}", {"body": text})
    elif text:
        request("POST", f"issues/{number}/comments", {"body": text})


def pages(path: str) -> Iterator[dict[str, Any]]:
    """All items of a list."""
    page = 1
    while items := request("GET", f"{path}?per_page=100&page={page}"):
        yield from items
        if len(items) < 100:
            return
        page += 1


def request(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """A request to GitHub's REST API.

    Raises:
        urllib.error.URLError: it failed.
    """
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = json.dumps(body).encode() if body is not None else None
    call = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  # the runner's own URL
    with urllib.request.urlopen(call, timeout=60) as response:  # noqa: S310
        return json.loads(response.read())


def cell(text: str) -> str:
    """Text for a cell of a Markdown table: a name in a pull request must not become markup."""
    for character in "\\|<>[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split()).replace("@", "@\u200b")


def duration(seconds: float) -> str:
    """Seconds as `42 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main())
