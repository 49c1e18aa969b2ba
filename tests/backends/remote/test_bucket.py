"""Which bucket a job goes through, and how GPUproof's own is made."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.bucket import BucketPlan, own_bucket_name, plan_bucket
from gpuproof.errors import UsageError
from support.faulty_aws import FakeResponse, FaultyAws, xml_error
from support.s3_server import MotoServer

pytestmark = pytest.mark.slow

ACCOUNT = "123456789012"


@pytest.fixture
def faulty(moto_server: MotoServer, aws_environment: pytest.MonkeyPatch) -> Iterator[FaultyAws]:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    aws_environment.delenv("GPUPROOF_BUCKET", raising=False)
    # Other tests of this process share moto's state.
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_server.url)
    _delete_own_buckets()
    with FaultyAws(moto_server.url) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        yield server
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_server.url)
    _delete_own_buckets()


def client(region: str = "us-east-1") -> Aws:
    return Aws(sleep=lambda _: None, region=region)


def _delete_own_buckets() -> None:
    for region in ("us-east-1", "eu-west-1"):
        name = own_bucket_name(ACCOUNT, region)
        found = client(region).bucket_region(name)
        if found is None:
            continue
        aws = client(found)
        for listed in aws.call("s3", "list_objects_v2", Bucket=name).get("Contents", ()):
            aws.call("s3", "delete_object", Bucket=name, Key=listed["Key"])
        aws.call("s3", "delete_bucket", Bucket=name)


def make(plan: BucketPlan, aws: Aws) -> None:
    for call in plan.calls:
        aws.call(call.service, call.operation, **call.request)


def test_a_bucket_that_is_named_is_taken_as_it_is(moto_server: MotoServer, faulty: FaultyAws) -> None:
    bucket = moto_server.bucket()
    assert plan_bucket(client(), bucket.name) == BucketPlan(bucket.name, "us-east-1")
    assert plan_bucket(client(), f"s3://{bucket.name}/") == BucketPlan(bucket.name, "us-east-1")


def test_the_job_goes_before_the_environment(
    moto_server: MotoServer, faulty: FaultyAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [moto_server.bucket().name for _ in range(2)]
    monkeypatch.setenv("GPUPROOF_BUCKET", names[1])
    assert plan_bucket(client(), names[0]).name == names[0]
    assert plan_bucket(client()).name == names[1]


def test_a_bucket_that_is_not_there_is_wrong_usage(faulty: FaultyAws) -> None:
    with pytest.raises(UsageError, match="There is no bucket no-such-bucket-of-mine") as caught:
        plan_bucket(client(), "no-such-bucket-of-mine")
    assert "aws s3 mb s3://no-such-bucket-of-mine --region us-east-1" in str(caught.value.remedy)


def test_a_bucket_in_another_region_is_refused_with_both_regions(faulty: FaultyAws) -> None:
    ireland = client("eu-west-1")
    ireland.call(
        "s3",
        "create_bucket",
        Bucket="in-ireland",
        CreateBucketConfiguration={"LocationConstraint": "eu-west-1"},
    )
    elsewhere = {"x-amz-bucket-region": "eu-west-1"}
    faulty.fault("HEAD", FakeResponse(200, b"", elsewhere))
    with pytest.raises(
        UsageError, match="in-ireland is in eu-west-1, but the job would run in us-east-1"
    ) as caught:
        plan_bucket(client(), "in-ireland")
    assert "--region eu-west-1" in str(caught.value.remedy)


def test_an_address_below_a_bucket_is_not_a_bucket(faulty: FaultyAws) -> None:
    with pytest.raises(UsageError, match="is not a bucket name"):
        plan_bucket(client(), "s3://data/below")
    assert faulty.asked == []


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
@pytest.mark.usefixtures("faulty")
def test_gpuproofs_own_bucket_is_planned_noted_and_made_private(region: str) -> None:
    aws = client(region)
    plan = plan_bucket(aws)
    assert plan.name == f"gpuproof-{ACCOUNT}-{region}"
    assert plan.note is not None
    assert plan.name in plan.note
    assert aws.bucket_region(plan.name) is None  # nothing was made by planning it
    make(plan, aws)
    name = {"Bucket": plan.name}
    block = aws.call("s3", "get_public_access_block", **name)["PublicAccessBlockConfiguration"]
    assert all(block.values())
    rule = aws.call("s3", "get_bucket_encryption", **name)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    ownership = aws.call("s3", "get_bucket_ownership_controls", **name)["OwnershipControls"]
    assert ownership["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    (denied,) = json.loads(aws.call("s3", "get_bucket_policy", **name)["Policy"])["Statement"]
    assert (denied["Effect"], denied["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    rules = {
        rule["ID"]: rule for rule in aws.call("s3", "get_bucket_lifecycle_configuration", **name)["Rules"]
    }
    assert rules["gpuproof-objects"]["Expiration"]["Days"] == 30
    assert rules["gpuproof-objects"]["Filter"]["Prefix"] == "gpuproof/objects/"
    assert rules["gpuproof-code"]["Filter"]["And"]["Prefix"] == "gpuproof/runs/"
    assert rules["gpuproof-broken-uploads"]["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] == 1
    assert plan_bucket(aws) == BucketPlan(plan.name, region)


@pytest.mark.usefixtures("faulty")
def test_making_the_bucket_can_be_taken_back() -> None:
    aws = client()
    plan = plan_bucket(aws)
    make(plan, aws)
    for call in reversed(plan.calls):
        if call.undo is not None:
            aws.call(call.undo.service, call.undo.operation, **call.undo.request)
    assert aws.bucket_region(plan.name) is None


def test_gpuproofs_bucket_name_owned_by_another_account_is_not_used(faulty: FaultyAws) -> None:
    faulty.fault("HEAD", FakeResponse(403, b""))
    with pytest.raises(
        UsageError,
        match=r"belongs to another account, or you have no permission to see it \(s3:ListBucket\): 403",
    ) as caught:
        plan_bucket(client())
    assert "GPUPROOF_BUCKET" in str(caught.value.remedy)
    assert faulty.requests[-1].headers["x-amz-expected-bucket-owner"] == ACCOUNT


def test_a_creation_that_comes_too_late_names_another_way(faulty: FaultyAws) -> None:
    plan = plan_bucket(client())
    faulty.fault("PUT", xml_error("BucketAlreadyExists", status=409))
    with pytest.raises(AwsRefused, match="BucketAlreadyExists") as caught:
        make(plan, client())
    assert "--bucket NAME" in str(caught.value.remedy)
