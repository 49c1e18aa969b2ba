"""The documentation is true: its commands run, what it shows is what they print, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from gpuproof.explain.patterns import known_errors
from gpuproof.jobs import load_jobs
from gpuproof.util.csv_table import read_package_rows
from support.cli_sandbox import CliSandbox

pytestmark = [pytest.mark.journey, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
]
PLACEHOLDER = re.compile(r"\b(?!README)[A-Z]{3,}\b|\*")
NEEDS_AWS_OR_A_SERVER = re.compile(r"catalogue refresh|bench-endpoint|echo \$\?")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language in all pages, each once."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return list(dict.fromkeys(block for page in PAGES for block in fence.findall(page.read_text())))


def sessions() -> list[tuple[str, str]]:
    """Each command of a console block with the output that a page shows for it."""
    found: list[tuple[str, str]] = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def plain(text: str) -> list[str]:
    """Lines without what differs from machine to machine: ids, numbers, units, paths."""
    text = re.sub(r"-\d{8}-\d{6}-[0-9a-f]{4}", "-ID", text)
    text = re.sub(r"(?<![\w.])/(?!opt/ml)\S+", "PATH", text)
    text = re.sub(r"\d[\d.,:]*( ?([KMG]iB|B|s)\b)?", "N", text)
    return squeezed(text)


def squeezed(text: str) -> list[str]:
    """Lines that are not empty, their white space folded."""
    return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]


def shows(expected: list[str], seen: list[str]) -> bool:
    """Whether the output is as shown, where `…` stands for any number of lines."""
    if not expected:
        return not seen
    if expected[0] == "…":
        return any(shows(expected[1:], seen[start:]) for start in range(len(seen) + 1))
    return bool(seen) and expected[0] == seen[0] and shows(expected[1:], seen[1:])


SHOWN: dict[str, list[str]] = {}
for _command, _output in sessions():
    if not NEEDS_AWS_OR_A_SERVER.search(_command):
        SHOWN.setdefault(_command, []).append(_output)


@pytest.mark.parametrize("command", SHOWN)
def test_a_command_prints_what_the_pages_show(sandbox: CliSandbox, command: str) -> None:
    shutil.copytree(
        ROOT / "examples", sandbox.project / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    sandbox.environment |= {"COLUMNS": "160", "SOURCE_DATE_EPOCH": "1795392000"}  # prices are not old in 2026
    words = shlex.split(command, comments=True)
    assert words[0] == "gpuproof"
    done = sandbox.gpuproof(*words[1:])
    printed = merged(done)
    # Facts are the same on every machine; a run's numbers are not.
    form = squeezed if words[1] == "gpus" else plain
    for output in SHOWN[command]:
        assert shows(form(output), form(printed)), printed


def merged(done: subprocess.CompletedProcess[str]) -> str:
    """Output and GPUproof's own lines as a terminal shows them: the script's after the line about /opt/ml."""
    head, mark, tail = done.stderr.partition("\n\n")
    return f"{head}\n{done.stdout}\n{tail}" if mark else done.stdout + done.stderr


def test_the_tour_mentions_the_exit_code_of_an_unused_gpu(sandbox: CliSandbox) -> None:
    shutil.copytree(ROOT / "examples", sandbox.project / "examples")
    commands = [command for command, _ in sessions()]
    after = commands[commands.index("echo $?") - 1]
    expected = next(output for command, output in sessions() if command == "echo $?")
    assert sandbox.gpuproof(*shlex.split(after)[1:]).returncode == int(expected)


def tour() -> list[str]:
    """The commands of README's tour."""
    section = (ROOT / "README.md").read_text().partition("## A three-line tour")[2]
    return [shlex.join(shlex.split(line, comments=True)) for line in section.split("```")[1].splitlines()[1:]]


@pytest.mark.parametrize("command", tour())
def test_readmes_tour_runs_as_printed_in_a_clone(sandbox: CliSandbox, command: str) -> None:
    shutil.copytree(
        ROOT / "examples", sandbox.project / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    program, *words = shlex.split(command)
    assert program == "gpuproof"
    done = sandbox.gpuproof(*words)
    assert done.returncode == 0, done.stderr


def test_readmes_tour_names_three_commands() -> None:
    assert [command.split()[1] for command in tour()] == ["check", "run", "run"]


PAGES_WITH_TESTS = "".join(
    (ROOT / "docs" / name).read_text() for name in ("watch-sagemaker.md", "watch-python.md")
)
"""`tests/watch/recipes` runs the files of the first with the SDKs for which they are written, and
`tests/runtime/callbacks/test_watch_python_docs.py` the blocks of the second on a machine with a stub GPU."""


@pytest.mark.parametrize(
    "block", [block for block in blocks("python") if "deploy(" not in block and block not in PAGES_WITH_TESTS]
)
def test_python_blocks_run(sandbox: CliSandbox, block: str) -> None:
    shutil.copytree(ROOT / "examples", sandbox.project / "examples")
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HOME": str(sandbox.home),
        "XDG_STATE_HOME": "",
        "XDG_CACHE_HOME": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=sandbox.project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    if "gpuproof.run(" in block:
        assert "Completed no-gpu-expected" in done.stdout


CI_PAGES = "".join(
    (ROOT / "docs" / name).read_text()
    for name in ("check.md", "compare.md", "watch-images.md", "watch-clusters.md")
)
"""Their YAML is for CI services, of which `tests/check/test_integrations.py` runs what they call, and for Kubernetes, which
`tests/watch/test_image_recipes.py` and `tests/watch/group/test_cluster_docs.py` run."""


@pytest.mark.parametrize("block", [block for block in blocks("yaml") if block not in CI_PAGES])
def test_job_files_are_valid(sandbox: CliSandbox, block: str) -> None:
    document = yaml.safe_load(block)
    if not document.keys() & {"entry_point", "jobs", "kind"}:  # some keys of a job
        block = f"entry_point: src/train.py\n{block}"
    sandbox.write("gpuproof.yaml", block)
    for file in ("src/train.py", "train.py", "sample.json", "data/rows"):
        sandbox.write(file, "")
    jobs = load_jobs(sandbox.project / "gpuproof.yaml").values()
    if {getattr(job, "kind", "") for job in jobs} & {"machine", "notebook", "endpoint"}:
        return  # they do not run here, or not without --jupyter; `gpuproof deploy` needs an account
    sandbox.environment["SLACK_WEBHOOK_URL"] = "https://hooks.slack.com/services/T/B/x"
    done = sandbox.gpuproof("run", "--dry-run", "--no-require-gpu")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`((?:src|tests|tools|bench|examples|docs)/[\w./-]+)`", text)
    assert [path for path in named if not PLACEHOLDER.search(path) and not (ROOT / path).exists()] == []
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether a relative link leads to a file, and to a heading of it where it names one."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
    return not anchor or anchor in [
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
    ]


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [page.name for page in ROOT.glob("docs/*.md") if f"({page.name})" not in index] == ["README.md"]


def test_the_readme_is_short() -> None:
    assert 700 <= len((ROOT / "README.md").read_text().split()) <= 900


def test_what_the_pages_count_is_true() -> None:
    readme, explain = ((ROOT / name).read_text() for name in ("README.md", "docs/explain.md"))
    assert f"turns {len(known_errors())} CUDA" in readme
    assert f"recognizes {len(known_errors())} errors" in explain
    assert f"[{len(list(ROOT.glob('docs/rules/[A-Z]*[0-9].md')))} rules]" in readme
    assert (
        f"{len(read_package_rows('gpuproof.catalogue', 'data/instances.csv'))} AWS GPU instance types"
        in readme
    )


def test_on_pypi_every_link_of_the_readme_is_absolute() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    text = (ROOT / "README.md").read_text()
    for rule in settings["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
