"""Which places there are for a user, and which run is meant by a name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.backends import registry
from gpuproof.backends.base import AmbiguousRun
from gpuproof.backends.local.runs import LocalRuns
from gpuproof.backends.record import RunRecord
from gpuproof.backends.registry import find_run
from gpuproof.errors import RunNotFound
from gpuproof.settings import aws_is_set_up


class Runs:
    """Runs of one place, by name."""

    def __init__(self, place: str, *names: str, error: Exception | None = None) -> None:
        self.place = place
        self.names = names
        self.error = error
        self.asked: list[str | None] = []

    def find(self, name: str | None) -> RunRecord:
        self.asked.append(name)
        if self.error is not None:
            raise self.error
        if name not in self.names:
            raise RunNotFound(f"No run {self.place} is called {name}.", remedy=self.place)
        return RunRecord.of(
            {
                "id": name,
                "job_name": "j",
                "kind": "training",
                "place": self.place,
                "status": "Failed",
                "created": 1,
            }
        )

    def run(self, record: RunRecord) -> tuple[str, str]:
        return self.place, record.id


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> dict[str, Runs]:
    known = {"local": Runs("local", "here", "both"), "sagemaker": Runs("sagemaker", "there", "both")}
    monkeypatch.setattr(registry, "runs_in", lambda place, region=None: known[place])
    monkeypatch.setattr(registry, "aws_is_set_up", lambda: True)
    return known


class TestFinding:
    @pytest.mark.parametrize(
        ("name", "place", "region", "found"),
        [
            ("here", None, None, "local"),
            ("there", None, None, "sagemaker"),
            ("both", None, None, "local"),
            ("both", "sagemaker", None, "sagemaker"),
            ("both", None, "eu-west-1", "sagemaker"),
            ("both", "local", None, "local"),
        ],
    )
    def test_this_machine_goes_before_sagemaker_unless_it_is_said(
        self, places: dict[str, Runs], name: str, place: str | None, region: str | None, found: str
    ) -> None:
        assert find_run(name, place, region) == (found, name)

    def test_aws_is_not_asked_for_a_run_that_is_here(self, places: dict[str, Runs]) -> None:
        find_run("here")
        assert places["sagemaker"].asked == []

    def test_a_name_that_is_nowhere_says_where_it_was_looked_for(self, places: dict[str, Runs]) -> None:
        with pytest.raises(RunNotFound) as caught:
            find_run("nowhere")
        assert caught.value.message == ("No run local is called nowhere. No run sagemaker is called nowhere.")

    def test_a_name_with_several_meanings_here_is_not_looked_for_there(self, places: dict[str, Runs]) -> None:
        places["local"].error = AmbiguousRun("may mean 2 runs")
        with pytest.raises(AmbiguousRun):
            find_run("x")
        assert places["sagemaker"].asked == []

    def test_aws_in_trouble_is_said_beside(self, places: dict[str, Runs]) -> None:
        from gpuproof.backends.aws import NoCredentials

        places["sagemaker"].error = NoCredentials("Unable to locate credentials.", remedy="aws sso login")
        with pytest.raises(RunNotFound, match=r"No run local.*could not be asked: Unable") as caught:
            find_run("x")
        assert caught.value.remedy == "aws sso login"

    def test_without_aws_nobody_is_asked(
        self, places: dict[str, Runs], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry, "aws_is_set_up", lambda: False)
        with pytest.raises(RunNotFound):
            find_run("there")
        assert places["sagemaker"].asked == []


class TestIsAwsSetUp:
    @pytest.mark.parametrize(
        "environment",
        [{"AWS_ACCESS_KEY_ID": "a"}, {"AWS_PROFILE": "work"}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}],
    )
    def test_a_variable_is_enough(self, tmp_path: Path, environment: dict[str, str]) -> None:
        assert aws_is_set_up(environment, tmp_path)

    @pytest.mark.parametrize("name", ["config", "credentials"])
    def test_a_file_is_enough(self, tmp_path: Path, name: str) -> None:
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws" / name).touch()
        assert aws_is_set_up({}, tmp_path)

    def test_a_file_elsewhere_counts_and_the_null_device_does_not(self, tmp_path: Path) -> None:
        (tmp_path / "mine").touch()
        assert aws_is_set_up({"AWS_CONFIG_FILE": str(tmp_path / "mine")}, tmp_path)
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws" / "config").touch()
        assert not aws_is_set_up({"AWS_CONFIG_FILE": "/dev/null"}, tmp_path)

    def test_a_region_alone_or_nothing_is_not(self, tmp_path: Path) -> None:
        assert not aws_is_set_up({"AWS_REGION": "us-east-1", "AWS_PROFILE": ""}, tmp_path)


def test_runs_on_this_machine_give_local_runs(tmp_path: Path) -> None:
    runs = LocalRuns(tmp_path)
    record = Runs("local", "a").find("a")
    assert (runs.place, runs.run(record).id, runs.run(record).place) == ("local", "a", "local")


def test_looking_for_runs_here_imports_no_boto() -> None:
    program = (
        "import sys; from gpuproof.backends.registry import aws_is_set_up, runs_in; aws_is_set_up(); runs_in('local');"
        "print([name for name in sys.modules if name.startswith(('boto', 'gpuproof.backends.aws'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
