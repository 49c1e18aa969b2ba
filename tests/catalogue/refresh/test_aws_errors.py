"""What a refresh does when AWS does not answer as it should."""

import pytest

from gpuproof.cli.main import main

REGIONS = """<DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><regionInfo><item>
<regionName>us-east-1</regionName></item></regionInfo></DescribeRegionsResponse>"""
NO_TYPES = """<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet/>
</DescribeInstanceTypesResponse>"""


def refusal(code: str, message: str = "no") -> str:
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>"


def test_throttling_is_waited_out_and_then_named(answering, refreshing) -> None:
    answering(lambda *_: (503, refusal("RequestLimitExceeded")))
    one = refreshing()
    (outcome,) = one.refresh.fetch(["us-east-1"], ["instances"])
    assert outcome.error.kind == "throttled"
    assert one.slept == [5.0, 20.0]


def test_throttling_that_passes_leaves_no_trace(answering, refreshing) -> None:
    asked: list[str] = []

    def answer(_region: str, body: str) -> tuple[int, str]:
        asked.append(body)
        return (503, refusal("RequestLimitExceeded")) if len(asked) == 1 else (200, NO_TYPES)

    answering(answer)
    one = refreshing()
    (outcome,) = one.refresh.fetch(["us-east-1"], ["instances"])
    assert (outcome.rows, outcome.error) == ([], None)
    assert one.slept == [5.0]


def test_an_expired_token_is_named_with_its_code_and_not_tried_again(answering, refreshing) -> None:
    answering(
        lambda *_: (400, refusal("ExpiredToken", "The security token included in the request is expired"))
    )
    one = refreshing()
    (outcome,) = one.refresh.fetch(["us-east-1"], ["instances"])
    assert outcome.error.kind == "credentials"
    assert outcome.error.message.startswith("ExpiredToken: The security token")
    assert "aws sso login" in outcome.error.remedy
    assert one.slept == []


def test_a_region_that_needs_opting_in_fails_alone(answering, refreshing) -> None:
    def answer(region: str, _body: str) -> tuple[int, str]:
        return (401, refusal("AuthFailure")) if region == "ap-east-1" else (200, NO_TYPES)

    answering(answer)
    read, failed = refreshing().refresh.fetch(["ap-east-1", "us-east-1"], ["instances"])
    assert (read.scope.region, read.rows) == ("*", [])
    assert (failed.scope.region, failed.error.kind) == ("ap-east-1", "region")
    assert "Enable the region" in failed.error.remedy


@pytest.mark.usefixtures("dropping")
def test_a_dropped_connection_is_a_fault_of_the_network(refreshing) -> None:
    (outcome,) = refreshing().refresh.fetch(["us-east-1"], ["instances"])
    assert outcome.error.kind == "connection"
    assert "AWS_ENDPOINT_URL" in outcome.error.remedy


def test_a_parsing_bug_is_not_an_aws_error(answering, refreshing) -> None:
    broken = "<DescribeInstanceTypesResponse><instanceTypeSet><item><gpuInfo><gpus><item>"
    broken += "<manufacturer>NVIDIA</manufacturer></item></gpus></gpuInfo></item></instanceTypeSet>"
    answering(lambda *_: (200, broken + "</DescribeInstanceTypesResponse>"))
    with pytest.raises(KeyError):
        refreshing().refresh.fetch(["us-east-1"], ["instances"])


def test_missing_credentials_are_reported_with_exit_code_3(
    aws_environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    aws_environment.delenv("AWS_SECRET_ACCESS_KEY")
    assert main(["catalogue", "refresh"]) == 3
    assert "No AWS credentials" in capsys.readouterr().err


def test_when_not_even_the_regions_can_be_read_aws_refused(
    answering, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(
        lambda *_: (403, refusal("UnauthorizedOperation", "You are not authorized: ec2:DescribeRegions"))
    )
    assert main(["catalogue", "refresh"]) == 5
    output = capsys.readouterr().err
    assert "UnauthorizedOperation" in output
    assert "README" in output


def test_the_regions_are_those_of_the_account(answering, refreshing) -> None:
    answering(lambda *_: (200, REGIONS))
    assert refreshing().refresh.regions() == ["us-east-1"]
