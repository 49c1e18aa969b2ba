"""Which places there are for a user, and which run is meant by a name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpuproof
from gpuproof.backends.errors import AmbiguousRun
from gpuproof.backends.local.backend import LocalRunStore
from gpuproof.backends.record import RunRecord
from gpuproof.backends.registry import BACKENDS, find_run, find_run_in, load_backend, reject_foreign_flags
from gpuproof.backends.sagemaker.backend import SageMakerBackend
from gpuproof.errors import ExitCode, RunNotFound, UsageError
from gpuproof.settings import aws_is_set_up


class Runs:
    """Runs of one backend, by name."""

    def __init__(self, backend: str, *names: str, error: Exception | None = None) -> None:
        self.backend = backend
        self.names = names
        self.error = error
        self.asked: list[str | None] = []

    def find(self, name: str | None) -> RunRecord:
        self.asked.append(name)
        if self.error is not None:
            raise self.error
        if name not in self.names:
            raise RunNotFound(f"No run {self.backend} matches {name}.", remedy=self.backend)
        return RunRecord.of(
            {
                "id": name,
                "job_name": "j",
                "kind": "training",
                "backend": self.backend,
                "status": "Failed",
                "created": 1,
            }
        )

    def run(self, record: RunRecord) -> tuple[str, str]:
        return self.backend, record.id


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> dict[str, Runs]:
    known = {"local": Runs("local", "here", "both"), "sagemaker": Runs("sagemaker", "there", "both")}
    for name, runs in known.items():
        monkeypatch.setattr(load_backend(name), "runs", lambda _self, runs=runs: runs)
    monkeypatch.setattr(SageMakerBackend, "is_configured", classmethod(lambda _cls: True))
    return known


class TestFinding:
    @pytest.mark.parametrize(
        ("name", "backend", "region", "found"),
        [
            ("here", None, None, "local"),
            ("there", None, None, "sagemaker"),
            ("both", None, None, "local"),
            ("both", "sagemaker", None, "sagemaker"),
            ("both", None, "eu-west-1", "sagemaker"),
            ("both", "local", None, "local"),
        ],
    )
    def test_local_runs_take_precedence_over_sagemaker_without_a_flag(
        self, stores: dict[str, Runs], name: str, backend: str | None, region: str | None, found: str
    ) -> None:
        assert find_run(name, backend, region) == (found, name)

    def test_a_local_run_takes_no_request_to_aws(self, stores: dict[str, Runs]) -> None:
        find_run("here")
        assert stores["sagemaker"].asked == []

    def test_an_unknown_name_lists_where_it_was_searched(self, stores: dict[str, Runs]) -> None:
        with pytest.raises(RunNotFound) as caught:
            find_run("nowhere")
        assert caught.value.message == "No run local matches nowhere. No run sagemaker matches nowhere."

    def test_a_name_with_several_meanings_here_is_not_looked_for_there(self, stores: dict[str, Runs]) -> None:
        stores["local"].error = AmbiguousRun("matches 2 runs")
        with pytest.raises(AmbiguousRun):
            find_run("x")
        assert stores["sagemaker"].asked == []

    def test_an_aws_failure_is_added_to_the_message(self, stores: dict[str, Runs]) -> None:
        from gpuproof.backends.aws import NoCredentials

        stores["sagemaker"].error = NoCredentials("Unable to locate credentials.", remedy="aws sso login")
        with pytest.raises(
            RunNotFound, match=r"No run local.*on SageMaker could not be listed: Unable"
        ) as caught:
            find_run("x")
        assert caught.value.remedy == "aws sso login"
        assert caught.value.exit_code == ExitCode.UNDECIDED

    def test_the_only_backend_of_a_region_raises_its_own_error(self, stores: dict[str, Runs]) -> None:
        from gpuproof.backends.aws import NoCredentials

        stores["sagemaker"].error = NoCredentials("Unable to locate credentials.", remedy="aws sso login")
        with pytest.raises(NoCredentials):
            find_run_in([SageMakerBackend], "x", "eu-west-1")

    def test_the_same_failure_of_two_backends_is_stated_once(self, stores: dict[str, Runs]) -> None:
        from gpuproof.backends.aws import NoCredentials

        stores["sagemaker"].error = NoCredentials("Unable to locate credentials.", remedy="aws sso login")
        with pytest.raises(RunNotFound) as caught:
            find_run_in([load_backend("local"), SageMakerBackend, SageMakerBackend], "x")
        assert caught.value.message.count("Unable to locate") == 1
        assert "on SageMaker and on SageMaker could not be listed" in caught.value.message

    def test_without_aws_set_up_no_request_is_made(
        self, stores: dict[str, Runs], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(SageMakerBackend, "is_configured", classmethod(lambda _cls: False))
        with pytest.raises(RunNotFound):
            find_run("there")
        assert stores["sagemaker"].asked == []


class TestForeignFlags:
    def test_a_flag_of_another_backend_is_rejected(self) -> None:
        with pytest.raises(UsageError, match=r"--python requires --on local: .*container image") as caught:
            reject_foreign_flags("sagemaker", {"python": "python3.9"})
        assert "--image" in str(caught.value.remedy)

    def test_its_default_is_not(self) -> None:
        reject_foreign_flags("sagemaker", {"python": None, "isolation": "auto"})

    def test_its_own_flags_are_not(self) -> None:
        reject_foreign_flags("local", {"python": "python3.9", "isolation": "proot"})


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
    runs = LocalRunStore(tmp_path)
    record = Runs("local", "a").find("a")
    assert (runs.backend, runs.run(record).id, runs.run(record).backend) == ("local", "a", "local")


def test_looking_for_runs_here_imports_no_boto() -> None:
    program = (
        "import sys; from gpuproof.backends.registry import load_backend; load_backend('sagemaker').is_configured(); load_backend('local').open().runs();"
        "print([name for name in sys.modules if name.startswith(('boto', 'gpuproof.backends.aws'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FEATURES_OF_ONE_SERVICE = {
    "app/report.py": "only local runs note when their log had which length",
    "app/run.py": "the types that `gpuproof.run` returns for each backend",
    "cli/aws/iam.py": "each service has an execution role of its own",
    "cli/jobs/shell.py": "only instances of EC2 have sessions",
    "cli/jobs/stop.py": "batch transform jobs are SageMaker's",
}
"""Modules above the backends that may name one, with the reason."""


def names_a_backend(node: ast.AST) -> bool:
    """Whether code compares with a backend's name, or imports what only one backend has."""
    if isinstance(node, ast.ImportFrom):
        return re.fullmatch(r"gpuproof\.backends\.(local|sagemaker|ec2)\.\w+", node.module or "") is not None
    if not isinstance(node, ast.Compare):
        return False
    return any(isinstance(part, ast.Constant) and part.value in BACKENDS for part in ast.walk(node))


def test_nothing_above_the_backends_names_one() -> None:
    package = Path(gpuproof.__file__).parent
    # `gpus` and the catalogue compare the services EC2 and SageMaker, not backends.
    modules = [
        module
        for folder in ("app", "cli/jobs", "cli/aws", "cli/diagnostics")
        for module in sorted((package / folder).rglob("*.py"))
        if not module.name.startswith(("gpus", "catalogue"))
    ]
    offenders = {
        f"{module.relative_to(package)}:{node.lineno}"
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Compare | ast.ImportFrom) and names_a_backend(node)
    }
    assert {place.partition(":")[0] for place in offenders} == FEATURES_OF_ONE_SERVICE.keys(), offenders
