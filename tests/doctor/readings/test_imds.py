"""EC2's metadata service, over HTTP on loopback: version 2 with its token, and everything that it may fail in."""

import json
import socket
import time
from pathlib import Path

import pytest

from gpuproof.doctor.checks.cloud import maintenance_events
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.imds import SECONDS, InstanceMetadata, query_metadata
from gpuproof.doctor.readings.instance_identity import read_instance_identity
from support.aws_loopback import MetadataService
from support.gpu_states import codes

IDENTITY = json.dumps({"instanceType": "g5.xlarge", "region": "eu-west-1", "accountId": "123456789012"})
DOCUMENT = "dynamic/instance-identity/document"


def query(service: MetadataService) -> InstanceMetadata:
    result = query_metadata({"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url})
    assert result is not None
    return result


def test_type_and_region_are_requested_with_a_token():
    with MetadataService({DOCUMENT: IDENTITY}) as service:
        result = query(service)
    assert (result.problem, result.instance_type, result.region, result.role) == (
        None,
        "g5.xlarge",
        "eu-west-1",
        False,
    )
    assert service.requests[0] == "PUT /latest/api/token"


def test_the_account_s_number_is_not_kept():
    with MetadataService({DOCUMENT: IDENTITY}) as service:
        assert "123456789012" not in repr(query(service))


def test_a_role_a_spot_notice_and_maintenance_are_read():
    paths = {
        DOCUMENT: IDENTITY,
        "meta-data/iam/info": "{}",
        "meta-data/spot/instance-action": '{"action": "terminate", "time": "2026-11-21T14:00:00Z"}',
        "meta-data/events/recommendations/rebalance": '{"noticeTime": "2026-11-21T13:50:00Z"}',
        "meta-data/events/maintenance/scheduled": '[{"Code": "system-reboot", "NotBefore": "21 Jan 2027", "State": "active"}]',
    }
    with MetadataService(paths) as service:
        result = query(service)
    assert result.role
    assert (result.spot_action, result.spot_time) == ("terminate", "2026-11-21T14:00:00Z")
    assert result.rebalance == "2026-11-21T13:50:00Z"
    assert result.events == ("system-reboot from 21 Jan 2027",)


def test_a_disabled_service_is_reported():
    with MetadataService({}, rejects=403) as service:
        assert query(service).problem == "it answered HTTP 403"


def test_a_refused_connection_is_reported():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = query_metadata({"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{port}"})
    assert result is not None
    assert "cannot be reached" in (result.problem or "")


@pytest.mark.slow
def test_a_service_that_never_answers_is_given_up_within_its_second():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        result = query_metadata(
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        )
    assert result is not None
    assert result.problem == "it does not answer"
    assert time.monotonic() - began < 30 * SECONDS


def test_a_response_of_another_service_is_rejected():
    with MetadataService({DOCUMENT: "<html>hello</html>"}) as service:
        assert query(service).problem == "the response is not from EC2's metadata service"
    with MetadataService({DOCUMENT: "[1]"}) as service:
        assert query(service).problem == "the response is not from EC2's metadata service"


def test_a_disabled_service_gets_no_request():
    with MetadataService({DOCUMENT: IDENTITY}) as service:
        environment = {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url,
            "AWS_EC2_METADATA_DISABLED": "True",
        }
        assert query_metadata(environment) is None
    assert service.requests == []


def test_no_proxy_sees_the_token(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with MetadataService({DOCUMENT: IDENTITY}) as service:
        assert query(service).instance_type == "g5.xlarge"


def test_the_clocks_are_compared():
    with MetadataService({DOCUMENT: IDENTITY}, ahead_s=600) as service:
        skew = query(service).clock_skew_s
    assert skew is not None
    assert -603 < skew < -597


def test_outside_of_ec2_no_request_is_sent(tmp_path: Path):
    assert maintenance_events.read(Machine(root=tmp_path, environment={})) is None


def test_on_sagemaker_the_metadata_service_is_not_queried(tmp_path: Path):
    with MetadataService({}, rejects=403) as service:
        environment = {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url,
            "SM_CURRENT_INSTANCE_TYPE": "ml.g5.xlarge",
        }
        assert maintenance_events.read(Machine(root=tmp_path, environment=environment)) is None
    assert service.requests == []


def test_a_pod_with_a_role_of_its_own_does_not_miss_the_service(tmp_path: Path):
    with MetadataService({}, rejects=403) as service:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url, "AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}
        assert maintenance_events.read(Machine(root=tmp_path, environment=environment)) is None
    assert service.requests


def test_a_xen_machine_learns_its_type_from_the_service(tmp_path: Path):
    with MetadataService({DOCUMENT: IDENTITY}) as service:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url}
        place = read_instance_identity(Machine(root=tmp_path, environment=environment))
    assert (place.instance_type, place.region, place.source) == (
        "g5.xlarge",
        "eu-west-1",
        "the metadata service",
    )


def judge(container: bool = False, **fields):
    return list(
        maintenance_events.evaluate(maintenance_events.Reading(InstanceMetadata(**fields), container))
    )


def test_a_spot_instance_that_is_taken_back_is_an_error():
    (finding,) = judge(spot_action="stop", spot_time="2026-11-21T14:00:00Z", rebalance="earlier")
    assert (finding.code, finding.severity) == ("D721", "error")
    assert "checkpoint" in (finding.remedy or "")


def test_a_rebalance_recommendation_and_maintenance_are_warnings():
    assert codes(judge(rebalance="2026-11-21T13:50:00Z")) == ["D722 warning"]
    assert codes(judge(events=("system-reboot from 21 Jan 2027",))) == ["D723 warning"]


@pytest.mark.parametrize(
    ("skew", "found"),
    [(2.0, []), (-59.0, []), (90.0, ["D720 warning"]), (-400.0, ["D720 error"]), (None, [])],
)
def test_a_clock_counts_from_a_minute_and_is_refused_from_five(skew: float | None, found: list[str]):
    assert codes(judge(clock_skew_s=skew)) == found


def test_a_clock_behind_is_called_behind():
    (finding,) = judge(clock_skew_s=-400.0)
    assert "7 min behind" in finding.message


def test_a_silent_service_is_a_note_that_names_the_hop_limit_in_a_container():
    (inside,) = judge(container=True, problem="it does not answer")
    (outside,) = judge(problem="it answered HTTP 403")
    assert (inside.code, inside.severity) == ("D724", "note")
    assert "hop-limit 2" in (inside.remedy or "")
    assert "hop-limit" not in (outside.remedy or "")
