"""`gpuproof explain` as a person types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuproof.cli.main import main

LOGS = Path(__file__).parents[2] / "explain" / "logs"
QUIET = LOGS.parent / "quiet"


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuproof import settings

    settings._made.cache_clear()
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")


def test_a_known_cause_exits_with_1_and_prints_line_cause_and_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", str(LOGS / "torch-out-of-memory.log")]) == 1
    output = capsys.readouterr().out
    assert "error      torch-out-of-memory (torch-out-of-memory.log:" in output
    assert "\ncause      GPU memory is full on GPU 0" in output
    assert "\nhere       ml.g5.xlarge has 1 x A10G" in output
    assert "\nfix        " in output
    assert "\nexplains   line " in output
    assert max(map(len, output.splitlines())) <= 100


def test_a_sound_log_leaves_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(QUIET / "sagemaker_success.log")]) == 0
    assert "ok         No known error found" in capsys.readouterr().out


def test_an_unknown_failure_leaves_code_3_and_shows_the_last_exception(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        'start\nTraceback (most recent call last):\n  File "a.py", line 1\nmylib.Broken: no flux\n'
    )
    assert main(["explain", str(log)]) == 3
    output = capsys.readouterr().out
    assert "unknown    Failed, cause not recognized" in output
    assert "last error line 4: mylib.Broken: no flux" in output


def test_a_file_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "./nowhere.log"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_without_a_run_the_remedy_is_to_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 2
    assert "There are no runs on this machine." in capsys.readouterr().err


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", (LOGS / "disk-full.log").open())
    assert main(["explain", "-", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["failed"] is True
    (found,) = document["explanations"]
    assert found["code"] == "disk-full"
    assert found["severity"] == "error"
    assert found["location"] == {"line": 5}
    assert found["source"]
    assert "consequences" not in found


def test_the_instance_type_makes_it_concrete(capsys: pytest.CaptureFixture[str]) -> None:
    main(
        ["explain", str(LOGS / "ec2-vcpu-quota.log"), "--instance-type", "g5.xlarge", "--region", "eu-west-1"]
    )
    output = capsys.readouterr().out
    assert "g5.xlarge counts 4 vCPUs" in output
    (command,) = [line for line in output.splitlines() if "aws service-quotas" in line]
    assert command.endswith("--quota-code L-DB2E81BA --desired-value 4 --region eu-west-1")


def test_an_unknown_instance_type_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(LOGS / "disk-full.log"), "--instance-type", "ml.g5.xlage"]) == 2
    assert "Did you mean ml.g5.xlarge" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nope.log", "nope.txt", "logs/nope"])
def test_a_log_that_does_not_exist_is_said_to_be_missing(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["explain", name]) == 2
    assert f"Cannot read {name}: no such file or directory." in capsys.readouterr().err


def test_a_warning_alone_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(LOGS / "sagemaker-no-artifact.log")]) == 1
    assert "warning    sagemaker-no-artifact" in capsys.readouterr().out


class _Runs:
    """One run of a backend that the test names."""

    def __init__(self, backend: str, created: float) -> None:
        from gpuproof.backends.record import RunRecord
        from gpuproof.explain import Context, make_report

        self.backend, self.id = backend, f"{backend}-run"
        self._document = {
            "id": self.id,
            "job_name": "train",
            "kind": "training",
            "backend": backend,
            "status": "Failed",
            "secondary_status": "Failed",
            "created": created,
        }
        self._of = RunRecord.of
        self._report = make_report([], Context(failed=True))

    @property
    def record(self) -> object:
        return self._of(self._document)

    def report(self, *_: object) -> object:
        return self._report

    def find(self, _: str | None) -> object:
        return self.record

    def run(self, _: object) -> _Runs:
        return self


def _backend(name: str, created: float | None) -> type:
    """A backend with one run, or one that cannot be reached."""
    from gpuproof.errors import GPUproofError

    class Backend:
        location = f"on {name}"
        is_remote = has_regions = name != "local"

        @classmethod
        def is_configured(cls) -> bool:
            return True

        @classmethod
        def open(cls, **_: object) -> type[Backend]:
            return cls

        @classmethod
        def runs(cls) -> _Runs:
            if created is None:
                raise GPUproofError("The credentials have expired.")
            return _Runs(name, created)

    return Backend


@pytest.mark.parametrize(("created", "newest"), [(100.0, "local-run"), (300.0, "sagemaker-run")])
def test_without_an_argument_the_newest_run_of_any_backend_is_taken_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], created: float, newest: str
) -> None:
    from gpuproof.backends import registry

    known = {
        "local": _backend("local", 200.0),
        "sagemaker": _backend("sagemaker", created),
        "ec2": _backend("ec2", None),
    }
    monkeypatch.setattr(registry, "load_backend", known.__getitem__)
    assert main(["explain"]) == 3
    output = capsys.readouterr().out
    assert f"run        {newest}, the newest run on {newest.removesuffix('-run')}" in output
    assert "Runs on ec2 could not be listed: The credentials have expired." in output
