"""What stands between here and AWS, and what boto3 is imported for."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpuproof import settings
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, NoCredentials
from gpuproof.backends.aws.slow_request import SlowRequests
from support.faulty_aws import FaultyAws, json_answer, json_error

pytestmark = pytest.mark.slow


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def one_attempt(aws_environment: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    for name in ("AWS_ENDPOINT_URL", "NO_PROXY", "no_proxy", "HTTPS_PROXY", "https_proxy"):
        aws_environment.delenv(name, raising=False)
    return aws_environment


def test_a_certificate_that_is_not_trusted_names_the_variable(
    faulty: FaultyAws, one_attempt: pytest.MonkeyPatch
) -> None:
    one_attempt.setenv("AWS_ENDPOINT_URL", faulty.url.replace("http:", "https:"))
    with pytest.raises(AwsUnreachable, match="GetCallerIdentity: SSL validation failed") as caught:
        Aws(region="us-east-1").caller()
    assert "AWS_CA_BUNDLE" in str(caught.value.remedy)


def test_a_proxy_that_does_not_answer_is_named(closed_port: int, one_attempt: pytest.MonkeyPatch) -> None:
    one_attempt.setenv("HTTPS_PROXY", f"http://127.0.0.1:{closed_port}")
    with pytest.raises(AwsUnreachable, match=f"127.0.0.1:{closed_port}") as caught:
        Aws(region="us-east-1").caller()
    assert "HTTPS_PROXY" in str(caught.value.remedy)


def test_a_single_sign_on_that_has_ended_is_begun_again_by_profile(
    one_attempt: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[profile work]\nsso_start_url = https://example.awsapps.com/start\nsso_region = us-east-1\n"
        "sso_account_id = 123456789012\nsso_role_name = Engineer\n"
    )
    one_attempt.setenv("AWS_CONFIG_FILE", str(config))
    one_attempt.setenv("HOME", str(tmp_path))
    one_attempt.setenv("AWS_PROFILE", "work")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        one_attempt.delenv(name)
    with pytest.raises(NoCredentials) as caught:
        Aws(region="us-east-1").caller()
    assert "aws sso login --profile work" in str(caught.value.remedy)


def test_a_broken_configuration_file_causes_no_traceback(
    one_attempt: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("this is no configuration\n")
    one_attempt.setenv("AWS_CONFIG_FILE", str(config))
    with pytest.raises(AwsUnreachable, match="config") as caught:
        Aws(region="us-east-1").caller()
    assert "AWS_CONFIG_FILE" in str(caught.value.remedy)


def test_boto3_is_not_imported_before_the_first_request() -> None:
    code = (
        "import sys; import gpuproof.backends.aws as aws; assert 'gpuproof.backends.aws.client' not in sys.modules\n"
        "aws.Aws(region='us-east-1'); assert not {'boto3', 'botocore'} & set(sys.modules)\n"
        "assert 'gpuproof.catalogue' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_a_name_that_the_package_has_not_is_an_attribute_error() -> None:
    import gpuproof.backends.aws as package

    with pytest.raises(AttributeError, match="Nothing"):
        package.Nothing  # noqa: B018
    assert all(getattr(package, name) is not None for name in package.__all__)


def test_a_connection_without_an_answer_says_what_is_being_waited_for(
    one_attempt: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    announced = threading.Event()

    def announce(text: str) -> None:
        said.append(text)
        announced.set()

    def accept() -> None:
        connection, _ = listener.accept()
        announced.wait(300)
        listener.close()
        connection.close()

    listener = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    one_attempt.setenv("AWS_ENDPOINT_URL", f"http://{host}")
    thread = threading.Thread(target=accept)
    thread.start()
    with pytest.raises(AwsUnreachable):
        Aws(region="us-east-1", sleep=lambda _: None, slow=SlowRequests(announce, after=0.05)).caller()
    thread.join()
    assert said == [
        f"waiting for {host} to answer GetCallerIdentity, for 0 s so far; the request is repeated after 60 s"
    ]


class SteppingClock:
    """A clock on which some seconds pass between any two looks."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def test_requests_that_aws_refuses_for_a_while_are_announced_sparsely(
    faulty: FaultyAws, one_attempt: pytest.MonkeyPatch
) -> None:
    one_attempt.setenv("AWS_ENDPOINT_URL", faulty.url)
    said: list[str] = []
    faulty.fault("ListTrainingJobs", json_error("ThrottlingException"), times=6)
    faulty.fault("ListTrainingJobs", json_answer({"TrainingJobSummaries": []}))
    slow = SlowRequests(said.append, clock=SteppingClock(2.0))
    Aws(region="us-east-1", sleep=lambda _: None, slow=slow).call("sagemaker", "list_training_jobs")
    host = faulty.url.removeprefix("http://")
    assert said == [f"{host} answers ThrottlingException: ListTrainingJobs is being repeated, for 4 s so far"]


def test_one_failed_attempt_and_a_refusal_are_not_announced(
    faulty: FaultyAws, one_attempt: pytest.MonkeyPatch
) -> None:
    one_attempt.setenv("AWS_ENDPOINT_URL", faulty.url)
    said: list[str] = []
    slow = SlowRequests(said.append, clock=SteppingClock(2.0))
    aws = Aws(region="us-east-1", sleep=lambda _: None, slow=slow)
    for _ in range(4):
        faulty.fault("ListTrainingJobs", json_error("InternalFailure", status=500))
        faulty.fault("ListTrainingJobs", json_answer({"TrainingJobSummaries": []}))
        aws.call("sagemaker", "list_training_jobs")
        faulty.fault("DescribeTrainingJob", json_error("AccessDeniedException"))
        with pytest.raises(AwsRefused):
            aws.call("sagemaker", "describe_training_job", TrainingJobName="job")
    assert said == []


def test_nothing_is_printed_where_a_program_reads_the_output(
    faulty: FaultyAws, one_attempt: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one_attempt.setenv("AWS_ENDPOINT_URL", faulty.url)
    for shown in (False, True):
        settings.show_notices(shown)
        faulty.fault("ListTrainingJobs", json_error("ThrottlingException"), times=6)
        faulty.fault("ListTrainingJobs", json_answer({"TrainingJobSummaries": []}))
        slow = SlowRequests(clock=SteppingClock(2.0))
        Aws(region="us-east-1", sleep=lambda _: None, slow=slow).call("sagemaker", "list_training_jobs")
        assert ("ListTrainingJobs is being repeated" in capsys.readouterr().err) is shown
