"""The documentation is true: its commands run, what it shows is what they print, and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from gpuproof.explain.patterns import known_errors
from gpuproof.jobs import load_jobs
from gpuproof.util.csv_table import read_package_rows
from support.cli_sandbox import CliSandbox
from support.doc_blocks import blocks_of, pages

pytestmark = [pytest.mark.journey, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/guides/*.md")),
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
]
PLACEHOLDER = re.compile(r"\b(?!README)[A-Z]{3,}\b|\*")


def tour() -> list[str]:
    """The commands of README's tour."""
    section = (ROOT / "README.md").read_text().partition("## A three-line tour")[2]
    return [shlex.join(shlex.split(line, comments=True)) for line in section.split("```")[1].splitlines()[1:]]


def test_readmes_tour_names_three_commands() -> None:
    assert [command.split()[1] for command in tour()] == ["check", "run", "run"]


JOB_FILES = [block for page in pages() for block in blocks_of(page) if block.how == "job file"]


@pytest.mark.parametrize("block", [block.text for block in JOB_FILES], ids=map(str, JOB_FILES))
def test_job_files_are_valid(sandbox: CliSandbox, block: str) -> None:
    document = yaml.safe_load(block)
    if not document.keys() & {"entry_point", "jobs", "kind"}:  # some keys of a job
        block = f"entry_point: src/train.py\n{block}"
    sandbox.write("gpuproof.yaml", block)
    for file in ("src/train.py", "src/prepare.py", "train.py", "sample.json", "data/rows"):
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
    pages = [
        page.relative_to(ROOT / "docs").as_posix()
        for page in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md"))
    ]
    assert [page for page in pages if f"({page})" not in index] == ["README.md"]


def test_the_readme_is_short() -> None:
    text = re.sub("<!--.*?-->", "", (ROOT / "README.md").read_text())
    assert 700 <= len(text.split()) <= 900


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
