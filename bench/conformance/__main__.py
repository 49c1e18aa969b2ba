"""`python -m bench.conformance [SUITE …]`: run public test suites and record the counts."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpuproof.agent.hosts import HostNetwork
from gpuproof_emulator.testing import running

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "conformance.md"
FOLDER = "GPUPROOF_CONFORMANCE"
_UNEXPLAINED = "**unexplained**"
# They read the configuration that the container writes for nginx and for TensorFlow Serving's own program.
_OF_NGINX = ("test_nginx_config", "test_tfs_batching")
_FRAMEWORK = ("--framework-version", "2.19")
_HOST = "algo-1"
_LIMIT_S = 600  # of one run of pytest
_MAX_MESSAGE = 200  # characters


@dataclass(frozen=True)
class Suite:
    """One suite.

    Args:
        name: as on the command line.
        checkout: name of its folder.
        what: what it tests, for the results.
        run: runs it in its checkout.
    """

    name: str
    checkout: str
    what: str
    run: Callable[[Path], list[Outcome]]


@dataclass(frozen=True)
class Outcome:
    """Outcome of one test.

    Args:
        test: its file and name.
        status: `passed`, `failed` or `skipped`.
        message: first line of its failure.
    """

    test: str
    status: str
    message: str = ""


@dataclass(frozen=True)
class Reason:
    """Why tests of a suite fail.

    Args:
        suite: name of the suite.
        test: pattern that the test's name contains.
        message: pattern that the failure's message contains.
        reason: why that is so, and whether it is to stay.
    """

    suite: str
    test: str
    message: str
    reason: str

    def explains(self, suite: Suite, outcome: Outcome) -> bool:
        """Whether this is the reason of a failure."""
        return (
            suite.name == self.suite
            and re.search(self.test, outcome.test) is not None
            and re.search(self.message, outcome.message) is not None
        )


def main(names: list[str]) -> int:
    """Run the suites that are named, or all; returns 1 if a failure has no reason in `reasons.csv`."""
    folder = Path(os.environ.get(FOLDER, ""))
    if not os.environ.get(FOLDER) or not folder.is_dir():
        print(f"conformance: set {FOLDER} to the folder with the checkouts.", file=sys.stderr)
        return 2
    chosen = [suite for suite in SUITES if not names or suite.name in names]
    if unknown := set(names) - {suite.name for suite in SUITES}:
        print(f"conformance: unknown suite {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 2
    reasons = _reasons()
    sections: list[str] = []
    unexplained = 0
    for suite in chosen:
        checkout = folder / suite.checkout
        if not checkout.is_dir():
            print(f"conformance: {suite.name}: skipped, there is no {checkout}.", file=sys.stderr)
            continue
        print(f"conformance: {suite.name} …", file=sys.stderr, flush=True)
        outcomes = suite.run(checkout.absolute())
        section, missing = _section(suite, outcomes, reasons)
        print(section.splitlines()[0].removeprefix("## "), flush=True)
        sections.append(section)
        unexplained += missing
    _write(sections)
    print(f"written: {RESULTS}")
    return 1 if unexplained else 0


def _run_moto(checkout: Path) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        site = _install(Path(folder) / "site")
        options = ("--python", sys.executable, "--stop-grace", "1", "--hold", "0")
        with running(Path(folder) / "state", *options) as emulator:
            environment = {
                "TEST_SERVER_MODE": "true",
                "TEST_SERVER_MODE_ENDPOINT": emulator.url,
                "CONFORMANCE_EMULATOR": json.dumps(emulator.environment),
                "PYTHONPATH": os.pathsep.join([str(HERE), str(site)]),
                "AWS_DEFAULT_REGION": "us-east-1",
            }
            return _pytest(checkout, ["-p", "moto_plugin", "tests/test_sagemaker"], environment)


def _run_tensorflow(checkout: Path) -> list[Outcome]:
    # The tests use port 8080 of this machine, which may be taken: they get a network of their own.
    network = HostNetwork.create([_HOST])
    try:
        with tempfile.TemporaryDirectory() as folder:
            docker = Path(folder) / "bin" / "docker"
            docker.parent.mkdir()
            docker.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "docker.py"}" "$@"\n')
            docker.chmod(0o755)
            environment = {
                "PATH": f"{docker.parent}{os.pathsep}{os.environ['PATH']}",
                "CONFORMANCE_DOCKER": folder,
            }
            folder_of_tests = checkout / "test" / "integration" / "local"
            tests = [test for test in sorted(folder_of_tests.glob("test_*.py")) if test.stem not in _OF_NGINX]
            return [
                outcome
                for test in tests
                for outcome in _pytest(checkout, [*_FRAMEWORK, str(test)], environment, network)
            ]
    finally:
        network.close()


SUITES = (
    Suite("moto", "moto", "moto's tests of SageMaker, against `gpuproof emulator`", _run_moto),
    Suite(
        "tensorflow-serving",
        "sagemaker-tensorflow-serving-container",
        "AWS's functional tests of its TensorFlow Serving container, against `gpuproof serve`; without the tests of nginx's and"
        " TensorFlow Serving's own configuration",
        _run_tensorflow,
    ),
)


def _pytest(
    checkout: Path,
    words: list[str],
    environment: Mapping[str, str],
    network: HostNetwork | None = None,
) -> list[Outcome]:
    """Run tests; those of a run that takes too long count as one failure."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"]
    with tempfile.TemporaryDirectory() as temporary:
        report, log = Path(temporary) / "junit.xml", Path(temporary) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*command, f"--junitxml={report}", *words],
                cwd=checkout,
                env={**inherited, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=None if network is None else lambda: network.join(_HOST),  # noqa: PLW1509 - some system calls
            )
            try:
                process.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return [Outcome(f"{Path(words[-1]).stem}::all", "failed", f"took longer than {_LIMIT_S} s")]
        if not report.exists():
            raise SystemExit(log.read_text())
        return _read(report)


def _install(site: Path) -> Path:
    """Packages that the suites import and GPUproof's own tests do not."""
    uv = Path(sys.executable).with_name("uv")
    requirements = str(HERE / "requirements.txt")
    target = ["--python", sys.executable, "--target", str(site), "-r", requirements]
    subprocess.run([str(uv) if uv.exists() else "uv", "pip", "install", "--quiet", *target], check=True)
    return site


def _read(report: Path) -> list[Outcome]:
    found: list[Outcome] = []
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None:
            message = (problem.get("message") or "").strip().splitlines()
            found.append(Outcome(test, "failed", _shortened(message[0]) if message else ""))
        elif any(child.tag == "skipped" for child in case):
            found.append(Outcome(test, "skipped"))
        else:
            found.append(Outcome(test, "passed"))
    return found


def _shortened(message: str) -> str:
    text = message.removeprefix("botocore.exceptions.ClientError: An error occurred ")
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"


def _reasons() -> list[Reason]:
    """Why tests fail; the first row that matches is a failure's reason."""
    with (HERE / "reasons.csv").open(encoding="utf-8", newline="") as file:
        return [Reason(**row) for row in csv.DictReader(file)]


def _section(suite: Suite, outcomes: list[Outcome], reasons: list[Reason]) -> tuple[str, int]:
    failed = [item for item in outcomes if item.status == "failed"]
    run = [item for item in outcomes if item.status != "skipped"]
    lines = [f"## {suite.name}: {len(run) - len(failed)} of {len(run)} pass", "", suite.what + ".", ""]
    files = sorted({item.test.partition("::")[0] for item in run})
    lines += ["| file | pass | of |", "|---|---|---|"]
    for file in files:
        of = [item for item in run if item.test.startswith(f"{file}::")]
        lines.append(f"| {file} | {sum(item.status == 'passed' for item in of)} | {len(of)} |")
    missing = 0
    if failed:
        lines += ["", "| failure | reason | message |", "|---|---|---|"]
    for item in failed:
        why = next((reason.reason for reason in reasons if reason.explains(suite, item)), _UNEXPLAINED)
        missing += why is _UNEXPLAINED
        message = item.message.replace("|", "¦").replace("`", "'")
        lines.append(f"| `{item.test}` | {why} | {message} |")
    return "\n".join(lines), missing


def _write(sections: list[str]) -> None:
    day = datetime.now(tz=UTC).date().isoformat()
    head = f"# Conformance\n\nPublic test suites, run against GPUproof by `make conformance`; last on {day}."
    earlier = RESULTS.read_text(encoding="utf-8").split("\n## ")[1:] if RESULTS.exists() else []
    kept = {section.partition(":")[0]: section for section in earlier}
    kept |= {
        section.removeprefix("## ").partition(":")[0]: section.removeprefix("## ") for section in sections
    }
    body = "\n\n## ".join(["", *(kept[suite.name].rstrip() for suite in SUITES if suite.name in kept)])
    RESULTS.write_text(f"{head}{body}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
