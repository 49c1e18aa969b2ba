"""What the emulator decides without a server."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuproof.emulator.execution.host import Outcome
from gpuproof.emulator.execution.jobs.job_threads import Supervisor
from gpuproof.emulator.execution.jobs.metrics import Metrics
from gpuproof.emulator.execution.jobs.training_job import failure_reason
from gpuproof.emulator.execution.jobs.training_layout import checkpoint_folder, instance_groups
from gpuproof.emulator.execution.jobs.warm_pools import with_pool
from gpuproof.emulator.execution.s3_sync import Location, share
from gpuproof.emulator.faults.fault import BadFault, Fault, Faults
from gpuproof.emulator.operations import OPERATIONS, processing
from gpuproof.emulator.operations.call import Call
from gpuproof.emulator.protocol import AwsError, AwsRequest
from gpuproof.emulator.quotas import Quotas
from gpuproof.emulator.routing import named
from gpuproof.emulator.service_model import fitted, operation_model
from gpuproof.emulator.store import Resource, Store


def test_a_fault_is_written_as_its_kind_and_its_limits() -> None:
    fault = Fault.parse("interruption,after=2.5,final=yes,name=train-*,count=3")
    assert (fault.kind, fault.after, fault.final, fault.name, fault.count) == (
        "interruption",
        2.5,
        True,
        "train-*",
        3,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("earthquake", "there is no fault 'earthquake'"),
        ("throttling,where=there", "a fault has no 'where'"),
        ("throttling,count=many", "count=many is no number"),
        (
            "throttling,operation=CreateTrainingJobs",
            "no operation 'CreateTrainingJobs'; did you mean 'CreateTrainingJob'",
        ),
        ("drop,service=s3,operation=CreateTrainingJob", "no operation 'CreateTrainingJob' of s3"),
        ("drop,operation=Xyz*", "of sagemaker, .* and ec2; service= names another"),
        ("slow,service=sagmaker", "no service 'sagmaker'; did you mean 'sagemaker'"),
        ("capacity,operation=CreateTrainingJob", "capacity strikes SageMaker's jobs, by name= and instance="),
        ("quota,service=s3", "quota strikes SageMaker's jobs"),
        ("throttling,instance=ml.g5.*", "throttling strikes requests, which have no instance"),
    ],
)
def test_a_fault_that_cannot_be_meant_says_why(text: str, said: str) -> None:
    with pytest.raises(BadFault, match=said):
        Fault.parse(text)


@pytest.mark.parametrize(
    "limits",
    [
        "operation=Describe*",
        "service=s3*,operation=PutObject",
        "service=monitoring,operation=PutMetricData",
        "service=lambda,operation=Invoke",
        "service=elasticmapreduce",
        "operation=InvokeEndpoint",
        "operation=Post /2015-03-31/functions",
    ],
)
def test_a_fault_may_be_meant_for_whatever_aws_has(limits: str) -> None:
    assert Fault.parse(f"slow,seconds=0,{limits}").kind == "slow"


def test_a_fault_of_jobs_may_have_patterns_of_any_kind() -> None:
    fault = Fault.parse("capacity,name=train-[ab],instance=ml.[gp]5.*,service=sage*,operation=*")
    assert Faults([fault]).strike(("capacity",), name="train-b", instance="ml.g5.xlarge") is fault


def test_the_second_fault_strikes_when_the_first_is_used_up() -> None:
    faults = Faults([Fault("slow", count=1, seconds=1), Fault("slow", seconds=2)])
    assert [fault.seconds for _ in range(3) if (fault := faults.strike(("slow",)))] == [1, 2, 2]


@pytest.mark.parametrize("body", [b"[1]", b"null", b'"text"', b"{bad"])
def test_a_body_that_is_no_json_object_is_an_aws_error(body: bytes) -> None:
    request = AwsRequest.read({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
    with pytest.raises(AwsError) as caught:
        request.document()
    assert (caught.value.code, caught.value.status) == ("SerializationException", 400)


def test_a_fault_meets_its_own_type_alone() -> None:
    faults = Faults([Fault("capacity", instance="ml.p5.*")])
    assert faults.strike(("capacity",), instance="ml.g5.xlarge") is None
    assert faults.strike(("capacity",), instance="ml.p5.48xlarge") is not None


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "service", "operation"),
    [
        ("PUT", "/b/k", "", {}, "s3", "PutObject"),
        ("PUT", "/b/k", "", {"HTTP_X_AMZ_COPY_SOURCE": "b/other"}, "s3", "CopyObject"),
        ("PUT", "/b/k", "partNumber=1&uploadId=u", {}, "s3", "UploadPart"),
        ("POST", "/b/k", "uploads", {}, "s3", "CreateMultipartUpload"),
        ("GET", "/b", "list-type=2&prefix=a", {}, "s3", "ListObjectsV2"),
        ("HEAD", "/b", "", {}, "s3", "HeadBucket"),
        ("GET", "/", "", {}, "s3", "ListBuckets"),
        ("PUT", "/k", "", {"HTTP_HOST": "b.localhost:4599"}, "s3", "PutObject"),
        ("POST", "/", "Action=GetCallerIdentity", {}, "s3", "GetCallerIdentity"),
        ("POST", "/", "", {"HTTP_X_AMZ_TARGET": "SageMaker.ListModels"}, "sagemaker", "ListModels"),
        ("POST", "/endpoints/e/invocations", "", {}, "sagemaker-runtime", "InvokeEndpoint"),
        ("POST", "/endpoints/e/async-invocations", "", {}, "sagemaker-runtime", "InvokeEndpointAsync"),
    ],
)
def test_requests_are_called_by_their_operations(
    method: str, path: str, query: str, headers: dict[str, str], service: str, operation: str
) -> None:
    import io

    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "wsgi.input": io.BytesIO(),
        **headers,
    }
    assert named(AwsRequest.read(environ)) == (service, operation)


def test_only_what_reads_leaves_no_trace_in_the_journal() -> None:
    from gpuproof.emulator.routing import Named

    reading = ("GetObject", "ListBuckets", "DescribeLogStreams", "HeadObject", "BatchGetImage")
    changing = ("PutObject", "CreateBucket", "AssumeRole", "PutLogEvents", "RunInstances", "DeleteObject")
    assert all(Named("x", name).only_reads for name in reading)
    assert not any(Named("x", name).only_reads for name in changing)


def test_an_answer_has_only_members_that_the_model_knows() -> None:
    model = operation_model("DescribeTrainingJob")
    assert model is not None
    document = {
        "TrainingJobName": "a",
        "FailureReason": None,
        "Secret": 1,
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "Other": 1},
        "HyperParameters": {"any": "thing"},
    }
    assert fitted(model.output_shape, document) == {
        "TrainingJobName": "a",
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge"},
        "HyperParameters": {"any": "thing"},
    }


def test_every_operation_offered_is_sagemakers_own() -> None:
    from gpuproof.emulator.operations import OPERATIONS

    assert [name for name in OPERATIONS if operation_model(name) is None] == []


@pytest.mark.parametrize(
    ("passed", "status", "billed"), [(0.0, "Available", 0), (59.0, "Available", 59), (90.0, "Terminated", 60)]
)
def test_a_warm_pool_ends_when_its_time_is_over(passed: float, status: str, billed: int) -> None:
    job = Resource(
        "training-job",
        "us-east-1",
        "a",
        {
            "ResourceConfig": {"KeepAlivePeriodInSeconds": 60},
            "TrainingJobStatus": "Completed",
            "TrainingEndTime": 1000.0,
        },
    )
    assert with_pool(job, 1000.0 + passed)["WarmPoolStatus"] == {
        "Status": status,
        "ResourceRetainedBillableTimeInSeconds": billed,
    }


@pytest.mark.parametrize(
    ("outcome", "said", "reason"),
    [
        (Outcome(1), "boom", "AlgorithmError: boom, exit code: 1"),
        (Outcome(137), "", "AlgorithmError: , exit code: 137"),
        (
            Outcome(None, "x: No such file"),
            "",
            "AlgorithmError: CannotStartContainerError. Please make sure the container can be run: x: No such file",
        ),
        (Outcome(None, "no /opt/ml", ours=True), "", "InternalServerError: no /opt/ml"),
    ],
)
def test_failure_reasons_have_sagemakers_form(outcome: Outcome, said: str, reason: str) -> None:
    assert failure_reason(outcome, said) == reason


def test_hosts_share_keys_by_turns() -> None:
    keys = {key: key for key in "dbac"}
    assert [sorted(share(keys, host, 2)) for host in range(2)] == [["a", "c"], ["b", "d"]]


def test_places_in_s3_are_joined_without_double_slashes() -> None:
    assert str(Location.parse("s3://b/out/").below("job", "output")) == "s3://b/out/job/output"
    assert str(Location.parse("s3://b").below("job")) == "s3://b/job"


def test_groups_of_instances_get_their_own_hosts() -> None:
    groups = [
        {"InstanceGroupName": "gpu", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        {"InstanceGroupName": "cpu", "InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
    ]
    found = instance_groups({"ResourceConfig": {"InstanceGroups": groups}}, ["algo-1", "algo-2", "algo-3"])
    assert [(group["instance_group_name"], group["hosts"]) for group in found] == [
        ("gpu", ["algo-1"]),
        ("cpu", ["algo-2", "algo-3"]),
    ]


def test_checkpoints_outside_of_the_contract_have_no_place(tmp_path: Path) -> None:
    assert checkpoint_folder(tmp_path, {"LocalPath": "/opt/ml/my/checkpoints"}) == tmp_path / "my/checkpoints"
    assert checkpoint_folder(tmp_path, {}) == tmp_path / "checkpoints"
    assert checkpoint_folder(tmp_path, {"LocalPath": "/data"}) is None


def test_a_metric_whose_expression_cannot_be_read_finds_nothing() -> None:
    metrics = Metrics([{"Name": "bad", "Regex": "("}, {"Name": "good", "Regex": "v=(\\S+)"}])
    for line in ("v=1", "v=later"):
        metrics.look_at(line)
    assert [(item["MetricName"], item["Value"]) for item in metrics.final()] == [("good", 1.0)]


def test_documents_survive_and_removed_ones_do_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept, gone = (Resource("model", "us-east-1", name, {"ModelName": name}) for name in ("kept", "gone"))
    assert store.add(kept)
    assert store.add(gone)
    assert not store.add(Resource("model", "us-east-1", "kept", {}))
    with store.changing(kept):
        kept.document["More"] = 1
    store.remove(gone)
    assert [item.document for item in Store(tmp_path).all()] == [{"ModelName": "kept", "More": 1}]


@pytest.mark.parametrize("ended", ["Completed", "Failed", "Stopped"])
def test_a_job_that_has_just_ended_does_not_begin_to_stop(tmp_path: Path, ended: str) -> None:
    store = Store(tmp_path)
    job = Resource("processing-job", "us-east-1", "job", {"ProcessingJobStatus": ended})
    store.add(job)
    assert not Supervisor(SimpleNamespace(store=store)).stop(job)  # type: ignore[arg-type]
    assert job.document["ProcessingJobStatus"] == ended


def test_a_stop_that_comes_before_the_jobs_thread_is_heeded(tmp_path: Path) -> None:
    store = Store(tmp_path)
    job = Resource("processing-job", "us-east-1", "job", {"ProcessingJobStatus": "InProgress"})
    store.add(job)
    supervisor = Supervisor(SimpleNamespace(store=store, options=SimpleNamespace(state=tmp_path)))  # type: ignore[arg-type]
    assert supervisor.stop(job)
    asked: list[bool] = []
    supervisor._start(job, lambda control, _: asked.append(control.stop_asked))
    supervisor._threads[0].join()
    assert asked == [True]


def test_jobs_that_are_searched_come_in_the_order_of_numbers(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seconds in (9, 100, 20):
        document = {"TrainingJobName": f"job-{seconds}", "BillableTimeInSeconds": seconds}
        store.add(Resource("training-job", "us-east-1", f"job-{seconds}", document))
    asked = {"Resource": "TrainingJob", "SortBy": "BillableTimeInSeconds", "SortOrder": "Ascending"}
    call = Call(SimpleNamespace(store=store), asked, "us-east-1", 0.0)  # type: ignore[arg-type]
    found = [one["TrainingJob"]["BillableTimeInSeconds"] for one in OPERATIONS["Search"](call)["Results"]]
    assert found == [9, 20, 100]


class SlowStore(Store):
    """Gives others time between what is looked up and what is done upon it."""

    def all(self, kind: str | None = None, region: str | None = None) -> list[Resource]:
        found = super().all(kind, region)
        time.sleep(0.1)
        return found


def test_a_quota_holds_for_requests_at_the_same_time(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    quotas = Quotas(store, {"ml.g5.xlarge for processing job usage": 2})
    iam = SimpleNamespace(
        exceptions=SimpleNamespace(NoSuchEntityException=KeyError),
        get_role=lambda **_: {"Role": {"AssumeRolePolicyDocument": "sagemaker.amazonaws.com"}},
    )
    emulator: Any = SimpleNamespace(
        store=store,
        quotas=quotas,
        faults=Faults([]),
        options=SimpleNamespace(most_hosts=8),
        clients=SimpleNamespace(get=lambda *_: iam),
        supervisor=SimpleNamespace(process=lambda _: None),
    )
    cluster = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}

    def create(number: int) -> str:
        request = {
            "ProcessingJobName": f"job-{number}",
            "RoleArn": "arn:aws:iam::123456789012:role/jobs",
            "AppSpecification": {"ImageUri": "image"},
            "ProcessingResources": {"ClusterConfig": cluster},
        }
        try:
            processing.create(Call(emulator, request, "us-east-1", 0.0))
        except AwsError as error:
            return error.code
        return "made"

    with ThreadPoolExecutor(6) as pool:
        told = sorted(pool.map(create, range(6)))
    assert told == ["ResourceLimitExceeded"] * 4 + ["made"] * 2
