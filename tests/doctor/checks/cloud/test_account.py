"""Identity, region and quota, asked by real boto3 over HTTP on loopback."""

import os
import socket
import time
from pathlib import Path

import pytest

from gpuproof.doctor.checks.cloud.account import SECONDS, evaluate, has_credentials, read, summarize
from gpuproof.doctor.machine import Machine
from support.aws_loopback import Account, MetadataService
from support.gpu_states import codes, text

G_QUOTA = "L-DB2E81BA"


def found(account: Account, instance_type: str | None = "g5.xlarge", **environment: str):
    path = os.environ.get("PATH", "")
    machine = Machine(environment=account.environment(PATH=path, **environment), instance_type=instance_type)
    reading = read(machine)
    assert reading is not None
    return list(evaluate(reading))


def test_a_quota_of_zero_is_an_error_with_the_command_that_requests_more():
    with Account(quotas={G_QUOTA: 0.0}) as account:
        (finding,) = found(account)
    assert (finding.code, finding.severity) == ("D714", "error")
    assert "is 0 vCPUs in us-east-1" in finding.message
    assert "needs 4 vCPU" in finding.message
    assert (finding.remedy or "").startswith("aws service-quotas request-service-quota-increase")
    assert G_QUOTA in (finding.remedy or "")


def test_a_sufficient_quota_has_no_finding():
    with Account(quotas={G_QUOTA: 8.0}) as account:
        assert found(account) == []


def test_a_quota_too_small_for_this_size_is_an_error():
    with Account(quotas={G_QUOTA: 8.0}) as account:
        (finding,) = found(account, "g5.12xlarge")
    assert "needs 48 vCPU" in finding.message


def test_a_quota_never_applied_for_has_aws_s_default():
    with Account(defaults={G_QUOTA: 0.0}) as account:
        assert codes(found(account)) == ["D714 error"]


def test_a_sagemaker_quota_without_a_known_code_is_found_by_its_name_on_a_later_page():
    listed = {
        "ml.c5.xlarge for endpoint usage": 4.0,
        "other": 1.0,
        "ml.p2.xlarge for training job usage": 0.0,
    }
    with Account(listed=listed) as account:
        (finding,) = found(account, "ml.p2.xlarge")
    assert finding.code == "D714"
    assert "0 instances" in finding.message


def test_an_expired_token_is_a_warning_with_aws_s_code():
    with Account(failure="ExpiredToken") as account:
        (finding,) = found(account)
    assert (finding.code, finding.severity) == ("D713", "warning")
    assert "ExpiredToken" in finding.message
    assert "aws sso login" in (finding.remedy or "")


def test_a_region_that_is_not_enabled_is_distinguished_from_bad_credentials():
    with Account(disabled_regions=("af-south-1",)) as account:
        (finding,) = found(account, None, AWS_REGION="af-south-1")
    assert (finding.code, finding.severity) == ("D712", "error")
    assert "enable-region --region-name af-south-1" in (finding.remedy or "")


def test_a_quota_that_may_not_be_read_is_a_note():
    with Account(quota_failure="AccessDeniedException") as account:
        (finding,) = found(account)
    assert (finding.code, finding.severity) == ("D717", "note")
    assert "AccessDeniedException" in finding.message


def test_without_a_region_a_known_caller_is_reported():
    with Account() as account:
        environment = {**account.environment(), "PATH": os.environ.get("PATH", "")}
        del environment["AWS_REGION"]
        reading = read(Machine(environment=environment))
    assert reading is not None
    assert codes(evaluate(reading)) == ["D711 warning"]


def test_the_account_s_number_stays_out_of_the_reading():
    with Account(quotas={G_QUOTA: 0.0}) as account:
        machine = Machine(environment=account.environment(), instance_type="g5.xlarge")
        reading = read(machine)
    assert reading is not None
    assert reading.identity == "assumed-role/trainer/ann"
    assert "123456789012" not in repr(reading)
    assert summarize(reading) == "assumed-role/trainer/ann in us-east-1, quota 0 vCPUs"


def test_a_refused_connection_is_a_warning_about_the_network():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    account = Account()
    with account:
        environment = account.environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
    reading = read(Machine(environment=environment))
    assert reading is not None
    (finding,) = evaluate(reading)
    assert (finding.code, finding.severity) == ("D715", "warning")


@pytest.mark.slow
def test_an_aws_that_never_answers_is_given_up():
    with socket.socket() as silent, Account() as account:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        environment = account.environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        reading = read(Machine(environment=environment, instance_type="g5.xlarge"))
    assert reading is not None
    assert codes(evaluate(reading)) == ["D715 warning"]
    assert time.monotonic() - began < 3 * SECONDS


@pytest.mark.slow
def test_moto_s_sts_knows_the_caller():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with Account() as account:
            environment = account.environment(AWS_ENDPOINT_URL=f"http://{host}:{port}")
        reading = read(Machine(environment=environment))
    finally:
        server.stop()
    assert reading is not None
    assert (reading.failure, reading.identity) == (None, "user/moto")
    assert list(evaluate(reading)) == []


def test_without_credentials_no_request_is_sent(tmp_path: Path):
    machine = Machine(
        root=tmp_path, environment={"HOME": "/home/ann"}, instance_type="g5.xlarge", region="us-east-1"
    )
    assert not has_credentials(machine)
    assert read(machine) is None


@pytest.mark.parametrize(
    "environment",
    [
        {"AWS_ACCESS_KEY_ID": "x"},
        {"AWS_PROFILE": "work"},
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1"},
    ],
)
def test_credentials_are_seen_by_their_variables(tmp_path: Path, environment: dict[str, str]):
    assert has_credentials(Machine(root=tmp_path, environment=environment))


def test_credentials_are_seen_by_their_files(tmp_path: Path):
    (tmp_path / "home/ann/.aws").mkdir(parents=True)
    (tmp_path / "home/ann/.aws/config").write_text("[default]\nregion = eu-west-1\n")
    assert has_credentials(Machine(root=tmp_path, environment={"HOME": "/home/ann"}))


def test_credentials_are_seen_by_the_instance_s_role(tmp_path: Path):
    paths = {"dynamic/instance-identity/document": "{}", "meta-data/iam/info": "{}"}
    with MetadataService(paths) as service:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url}
        assert has_credentials(Machine(root=tmp_path, environment=environment))


def test_a_region_without_the_type_is_a_warning_that_names_others(tmp_path: Path):
    machine = Machine(root=tmp_path, environment={}, instance_type="p5.48xlarge", region="af-south-1")
    reading = read(machine)
    assert reading is not None
    (finding,) = evaluate(reading)
    assert (finding.code, finding.severity) == ("D716", "warning")
    assert "us-east-1" in text(finding)
