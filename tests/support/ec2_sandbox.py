"""A job's folder, an emulated account, and plans of runs on EC2 in it: for tests of launching."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.agent_job.launch_settings import new_cluster_key
from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.planning.network import plan_network
from gpuproof.backends.ec2.submission.submission import Launched, submit_once
from gpuproof.backends.ec2.target import ChosenAmi, EC2Target, InstanceProfile, Zone
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.bucket import plan_bucket
from gpuproof.backends.remote.planning.job_files import collect_source
from gpuproof.backends.remote.upload.upload_plan import plan_uploads
from gpuproof.catalogue import Catalogue
from gpuproof.jobs.models.script_jobs import Job, TrainingJob
from support.aws_emulator import REGION, RunningEmulator
from support.faulty_aws import FakeResponse, FaultyAws, Request, query_error

IMAGE = "ami-12c6146b"
PROFILE = "gpuproof-ec2"
_IN_REGION = "signed-for"
"""Names the region of a request, which is not in its body."""
_NUMBERS = itertools.count(1)


class EC2Sandbox:
    """What a test needs to plan and to launch.

    Args:
        emulator: answers.
        faulty: a proxy in front of it, where the client's requests to EC2 go.
        folder: gets `train.py` and `data/`.
        bucket: to use; GPUproof's own if None.
    """

    def __init__(
        self, emulator: RunningEmulator, faulty: FaultyAws, folder: Path, bucket: str | None
    ) -> None:
        self.emulator = emulator
        self.faulty = faulty
        self.folder = folder
        self.bucket = bucket
        self.slept: list[float] = []
        self._zones: dict[str, tuple[Zone, ...]] = {}
        self._refusals: list[tuple[FakeResponse, list[str]]] = []
        self.aws = self.client()
        (folder / "src").mkdir()
        (folder / "src" / "train.py").write_text("print('it runs')\n")
        (folder / "data").mkdir()
        (folder / "data" / "a.csv").write_text(f"{folder}\n")

    def client(self, kind: type[Aws] = Aws) -> Aws:
        """A client that does not wait."""
        return kind(session=self.emulator.session, sleep=self.slept.append, region=REGION)

    @cached_property
    def ec2(self) -> Any:
        """A boto3 client that no fault concerns."""
        return self.emulator.client("ec2")

    @property
    def vpc(self) -> str:
        """A VPC of this test's own."""
        return self.zones[0].vpc

    @property
    def zones(self) -> tuple[Zone, ...]:
        """A subnet in each of three zones."""
        return self.zones_in(REGION)

    def ec2_in(self, region: str) -> Any:
        """A boto3 client of a region."""
        return self.ec2 if region == REGION else self.emulator.client("ec2", region)

    def zones_in(self, region: str) -> tuple[Zone, ...]:
        """A subnet in each of three zones of a region, in a VPC of this test's own."""
        if region not in self._zones:
            ec2 = self.ec2_in(region)
            vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
            found: list[Zone] = []
            for number, letter in enumerate("abc"):
                name = f"{region}{letter}"
                made = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=name)
                found.append(Zone(name, made["Subnet"]["SubnetId"], vpc))
            self._zones[region] = tuple(found)
        return self._zones[region]

    def training(self, **keys: Any) -> TrainingJob:
        """A training job."""
        settings: dict[str, Any] = {
            "entry_point": "train.py",
            "name": "small",
            "source_dir": "src",
            "instance_type": "g5.xlarge",
            "max_duration": "1h",
        }
        return TrainingJob(**{**settings, **keys}).with_absolute_paths(self.folder)

    def plan(
        self,
        *types: str,
        job: Job | None = None,
        zones: Sequence[Zone] | None = None,
        spot: bool = False,
        aws: Aws | None = None,
        regions: Sequence[str] = (REGION,),
    ) -> EC2Plan:
        """The plan of a run.

        Args:
            types: to try, in this order; `g5.xlarge` if none is given.
            job: by default a training job with a local input.
            zones: to try; the VPC's three if None.
            regions: to try, in this order; all types in each.
        """
        job = job or self.training(inputs={"training": "data"})
        aws = aws or self.aws
        tree = collect_source(job)
        local = {name: Path(given) for name, given in job.inputs.items() if isinstance(given, str)}
        networks = {
            region: plan_network(aws.in_region(region), self.zones_in(region)[0].vpc, (), job.instance_count)
            for region in regions
        }
        # One cache for all tests: building the agent's file takes half a second.
        cache = self.emulator.state.parent / "cache"
        return EC2Plan(
            job=job,
            run_id=f"{job.name}-20260501-120000-{next(_NUMBERS):04x}{secrets.token_hex(2)}",
            region=REGION,
            bucket=plan_bucket(aws, self.bucket),
            targets=tuple(
                self.target(name, zones, region) for region in regions for name in types or ("g5.xlarge",)
            ),
            tree=tree,
            uploads=plan_uploads(tree, local, {}, cache),
            checkpoints=None,
            fresh=False,
            profile=InstanceProfile(PROFILE),
            networks=networks,
            spot=spot,
            max_duration=3600.0,
            warnings=(),
            cluster_key=new_cluster_key(job),
        )

    def target(self, name: str, zones: Sequence[Zone] | None = None, region: str = REGION) -> EC2Target:
        """An instance type to try."""
        catalogue = Catalogue.load()
        return EC2Target(
            name=name,
            region=region,
            instance=catalogue.instance(name),
            price=catalogue.price(name, region),
            spot_price=None,
            ami=ChosenAmi(IMAGE, "an image", "for tests", "x86_64", snapshot_gb=60),
            zones=self.zones_in(region) if zones is None else tuple(zones),
            expected=ExpectedGpus(1, "A10G", "for tests"),
            volume_gb=100,
        )

    def submit(
        self, plan: EC2Plan, progress: SubmitProgress | None = None, aws: Aws | None = None
    ) -> Launched:
        """Submit a plan, without waiting."""
        return submit_once(plan, aws or self.aws, Catalogue.load(), progress, sleep=self.slept.append)

    def refuse(
        self, code: str, message: str = "said the server", status: int = 400, **where: str | None
    ) -> None:
        """Have EC2 refuse launches, as long as the test runs.

        Args:
            where: only in this `zone`, only in this `region`, or only of this `instance` type.
        """
        if not self._refusals:
            self.faulty.fault("RunInstances", self._refusal, None)
        self._refusals.append((query_error(code, message, status), self._words(where)))

    def instances(self, run_id: str | None = None, region: str = REGION) -> list[dict[str, Any]]:
        """The instances that are not terminated, of one run or of all in the VPC of a region."""
        wanted = (
            {"Name": "vpc-id", "Values": [self.zones_in(region)[0].vpc]}
            if run_id is None
            else {"Name": "tag:gpuproof:run", "Values": [run_id]}
        )
        states = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
        found = self.ec2_in(region).describe_instances(Filters=[wanted, states])
        return [instance for each in found["Reservations"] for instance in each["Instances"]]

    def volumes(self, run_id: str, region: str = REGION) -> list[dict[str, Any]]:
        """The volumes of a run in a region."""
        tagged = {"Name": "tag:gpuproof:run", "Values": [run_id]}
        return self.ec2_in(region).describe_volumes(Filters=[tagged])["Volumes"]

    def security_groups(self, region: str = REGION) -> list[str]:
        """Names of the security groups of the VPC of a region, without its default one."""
        vpc = {"Name": "vpc-id", "Values": [self.zones_in(region)[0].vpc]}
        found = self.ec2_in(region).describe_security_groups(Filters=[vpc])
        return [group["GroupName"] for group in found["SecurityGroups"] if group["GroupName"] != "default"]

    def objects(self, prefix: str = "", bucket: str | None = None) -> set[str]:
        """Keys in the bucket."""
        pages = self.emulator.client("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=bucket or self.bucket, Prefix=prefix)
        return {item["Key"] for page in found for item in page.get("Contents", ())}

    def assert_nothing_left(self, plan: EC2Plan, *, uploads: bool = False) -> None:
        """Nothing of a run exists but the security group, which later runs use.

        Args:
            uploads: whether uploaded files remain too.
        """
        for region in plan.regions:
            assert self.instances(region=region) == []
            assert self.volumes(plan.run_id, region) == []
            assert self.security_groups(region) in ([], ["gpuproof"])
        assert self.emulator.client("scheduler").list_schedules()["Schedules"] == []
        left = self.objects(bucket=plan.bucket.name)
        kept = {
            key
            for key in left
            if key.startswith(("gpuproof/objects/", "gpuproof/inputs/", "gpuproof/manifests/"))
        }
        assert left == (kept if uploads else set())

    def _words(self, where: Mapping[str, str | None]) -> list[str]:
        """What the bodies of requests contain that are refused."""
        region = where.get("region") or REGION
        words = [item.subnet for item in self.zones_in(region) if item.name == where.get("zone")]
        if where.get("region") is not None:
            words.append(f"&{_IN_REGION}={region}&")
        if (instance := where.get("instance")) is not None:
            words.append(f"&InstanceType={instance}&")
        return words

    def _refusal(self, request: Request) -> FakeResponse | None:
        body = f"&{request.body.decode()}&{_IN_REGION}={request.region}&"
        return next((one for one, words in self._refusals if all(word in body for word in words)), None)


def interrupted_at(step: int, interrupt: Callable[[], None]) -> Callable[[int], None]:
    """What a progress does: interrupt at one step."""

    def at_step(number: int) -> None:
        if number == step:
            interrupt()

    return at_step


def running_sandbox(emulator: RunningEmulator, folder: Path, patch: Any) -> Iterator[EC2Sandbox]:
    """A sandbox with a bucket of its own, whose faults concern no other test."""
    folder.mkdir()
    with FaultyAws(emulator.url) as faulty:
        patch.setenv("AWS_ENDPOINT_URL_EC2", faulty.url)
        yield EC2Sandbox(emulator, faulty, folder, emulator.bucket(f"bucket-{secrets.token_hex(4)}"))
