"""The plan of a run on EC2: every decision, and the API calls that execute it as data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuproof.agent.contract import script_arguments
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import CONTRACT_ROOT, ContractPaths
from gpuproof.backends.agent_job.document import job_document, shown_job_document
from gpuproof.backends.agent_job.machine import machine_text
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.display import DisplayedPlan
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.plan_description import (
    instances_text,
    limit_text,
    network_text,
    region_text,
    spot_text,
    target_document,
    volume_text,
)
from gpuproof.backends.ec2.planning.network import Network
from gpuproof.backends.ec2.requests.launch_objects import NEW_INSTANCE, record_call, region_mark_call
from gpuproof.backends.ec2.requests.run_instances import launch_call
from gpuproof.backends.ec2.requests.termination_schedule import MARGIN_S, termination_call
from gpuproof.backends.ec2.spot_retries import SpotRetries
from gpuproof.backends.ec2.target import EC2Target, InstanceProfile, Zone
from gpuproof.backends.ec2.user_data import user_data
from gpuproof.backends.hosts import host_names
from gpuproof.backends.offer import Offer
from gpuproof.backends.remote.agent_job import container_job, contract_kind
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.remote.code_channel import code_calls, environment_call, job_file_call
from gpuproof.backends.remote.planning.plan_lines import gpu_text, input_lines, output_lines
from gpuproof.backends.remote.results.deliver import local_destinations
from gpuproof.backends.remote.results.output_names import WORK_FOLDER, output_name
from gpuproof.backends.remote.s3_layout import RunLayout, checkpoint_prefix, uri
from gpuproof.backends.remote.upload.upload_plan import UploadPlan
from gpuproof.jobs.models.machine import MachineJob
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.source.tree import SourceTree
from gpuproof.jobs.validators import is_s3
from gpuproof.units import Duration

if TYPE_CHECKING:
    from gpuproof.agent.job import PlannedFlops
    from gpuproof.backends.base import Run


@dataclass(frozen=True, repr=False)
class EC2Plan(DisplayedPlan):
    """The plan of a run on EC2; implements `gpuproof.backends.base.Plan`.

    Args:
        job: with absolute paths.
        region: the job's own, where its files and logs are.
        targets: instance types in the order in which they are tried, each with its region.
        checkpoints: the `s3://` prefix that a training job's checkpoints are synchronized with.
        fresh: whether it starts without earlier checkpoints.
        networks: the security groups of each region.
        spot: whether spot capacity is requested.
        max_duration: seconds after the boot at which the instance shuts down.
        warnings: what the user should know before the run starts.
        retries: how often it is started again after spot interruptions, and the attempts before.
        schedule_role: the ARN of the role with which a schedule terminates instances that nothing else has ended; None if
            there is none.
        log_calls: the calls that create the log group of all runs; none if it exists.
        cluster_key: the secret of the hosts' agents; empty on one host.
        planned_flops: of a step of the script, if it was planned.
        provenance: what the run's record says of its code and inputs.
    """

    job: Job
    run_id: str
    region: str
    bucket: BucketPlan
    targets: tuple[EC2Target, ...]
    tree: SourceTree
    uploads: UploadPlan
    checkpoints: str | None
    fresh: bool
    profile: InstanceProfile
    networks: Mapping[str, Network]
    spot: bool
    max_duration: float
    warnings: tuple[str, ...]
    retries: SpotRetries = field(default_factory=SpotRetries)
    schedule_role: str | None = None
    log_calls: tuple[ApiCall, ...] = ()
    cluster_key: str = ""
    planned_flops: PlannedFlops | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def target(self) -> EC2Target:
        """The instance type that is tried first."""
        return self.targets[0]

    @property
    def network(self) -> Network:
        """The security groups of the region that is tried first."""
        return self.networks[self.target.region]

    @property
    def offer(self) -> Offer:
        """What the first instance type costs."""
        return self.target.offer(self.job.instance_count, spot=self.spot)

    @property
    def max_usd(self) -> float | None:
        """The highest possible cost, without the volumes; None if a price is unknown."""
        costs = [self.max_cost_usd(target) for target in self.targets]
        return None if None in costs else max(cost for cost in costs if cost is not None)

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions in the order in which they are tried."""
        return tuple(dict.fromkeys(target.region for target in self.targets))

    @property
    def kind(self) -> str:
        """The kind of job."""
        return self.job.kind

    @property
    def bucket_name(self) -> str:
        """The bucket of the run's files."""
        return self.bucket.name

    @property
    def layout(self) -> RunLayout:
        """The names of the run's files in the bucket."""
        return RunLayout(self.run_id)

    @property
    def input_addresses(self) -> dict[str, str]:
        """The `s3://` addresses of the inputs by name."""
        return {name: self.uploads.address(self.bucket.name, name) for name in self.job.inputs}

    @property
    def output(self) -> str:
        """The `s3://` prefix of a training job's archives."""
        job = self.job
        if not isinstance(job, ProcessingJob) and job.output and is_s3(job.output):
            return job.output
        return uri(self.bucket.name, self.layout.output)

    @property
    def outputs(self) -> Mapping[str, str]:
        """The `s3://` prefixes of a processing job's outputs by key, and of a machine's work folder; empty for a training job."""
        job = self.job
        if isinstance(job, MachineJob):
            return {WORK_FOLDER: self.checkpoints} if self.checkpoints else {}
        if isinstance(job, TrainingJob):
            return {}
        found: dict[str, str] = {}
        for number, (key, output) in enumerate(job.outputs.items(), 1):
            given = output.destination
            own = uri(self.bucket.name, self.layout.processing_output(output_name(key, number)))
            found[key] = given if given and is_s3(given) else own
        return found

    def security_groups(self, region: str) -> tuple[str, ...]:
        """Ids of the security groups in a region; empty if the submission creates the group."""
        return self.networks[region].groups

    def agent_job(self, target: EC2Target) -> AgentJob:
        """The agent's job for an instance type."""
        planned = container_job(self.job, self.run_id, target.name, target.expected)
        applied = target.launch.apply(planned, self.cluster_key)
        return replace(applied, planned_flops=self.planned_flops, provenance=self.provenance)

    def host_parameters(self, target: EC2Target) -> HostParameters:
        """The parameters of the host's program on an instance type."""
        job = self.job
        is_training = not isinstance(job, ProcessingJob)
        need, own = target.ami.driver, target.ami.environment
        own_checkpoints = uri(self.bucket.name, checkpoint_prefix(job.name, self.run_id))
        return HostParameters(
            run_id=self.run_id,
            region=self.region,
            bucket=self.bucket.name,
            prefix=self.layout.prefix,
            kind=contract_kind(job),
            machine=isinstance(job, MachineJob),
            agent_sha256=self.uploads.agent.digest,
            max_duration=self.max_duration,
            instance_type=target.name,
            inputs=self._input_paths(),
            outputs=self._output_paths(),
            output=self.output if is_training else "",
            checkpoints=self.checkpoints or "",
            restore_checkpoints=self.checkpoints != own_checkpoints,
            pythons=target.ami.pythons,
            env_python=own.python if own is not None else "",
            env_packages=own.packages if own is not None else (),
            image=target.container.uri if target.container is not None else "",
            gpus=target.gpus if target.expected.count != 0 else 0,
            hosts=host_names(job.instance_count),
            gpu_name=(target.instance.gpu_model or "") if target.instance is not None else "",
            gpu_memory=target.instance.gpu_memory if target.instance is not None else 0,
            local_disk=target.local_disk,
            rebalance=job.ec2.rebalance,
            min_driver=need.driver if need is not None else "",
            min_driver_for=need.because if need is not None else "",
        )

    def record(
        self,
        target: EC2Target,
        zone: Zone | None = None,
        created: float | None = None,
        launching: float = 0.0,
    ) -> LaunchRecord:
        """The record of a launch; its instance ids are added after it.

        Args:
            zone: None before the launch.
            created: when it was submitted, in seconds since the epoch; now if None.
            launching: when the launch of this instance type begins.
        """
        job, price, expected = self.job, target.price, target.expected
        count = expected.count or 0
        return LaunchRecord(
            run_id=self.run_id,
            job_name=job.name,
            kind=job.kind,
            region=target.region,
            bucket=self.bucket.name,
            instance_type=target.name,
            instance_count=job.instance_count,
            spot=self.spot,
            image=target.ami.id,
            created=time.time() if created is None else created,
            max_duration=self.max_duration,
            launching=launching,
            usd_per_hour=target.usd_per_hour,
            price_is_derived=target.spot_price is None and price is not None and price.kind == "derived",
            on_demand_usd_per_hour=None if price is None else price.usd_per_hour,
            zone="" if zone is None else zone.name,
            expects=f"{count} {expected.name or 'GPU'}" if count else "",
            require_gpu=job.require_gpu if job.require_gpu is not None else bool(count),
            outputs=self.outputs,
            output=self.output if isinstance(job, TrainingJob) else "",
            checkpoints=self.checkpoints or "",
            tags=dict(job.tags),
            fresh=self.fresh,
            attempt=self.retries.attempt,
            interrupted=self.retries.interrupted,
            schedule_role=self.schedule_role or "",
        )

    def files(self) -> list[tuple[str, int]]:
        """The source files, each with its size in bytes."""
        return self.tree.listing()

    def code_calls(self) -> tuple[ApiCall, ...]:
        """The calls that copy the uploaded agent and source into the code channel."""
        agent, source = self.uploads.agent.digest, self.uploads.source.digest
        return code_calls(self.bucket.name, self.layout, agent, source, None)

    def job_calls(self, target: EC2Target) -> tuple[ApiCall, ...]:
        """The calls that write the agent's job for an instance type, and the job's environment variables if it has any."""
        job_file = job_file_call(self.bucket.name, self.layout, job_document(self.agent_job(target)), None)
        if not self.job.environment:
            return (job_file,)
        return job_file, environment_call(self.bucket.name, self.layout, self.job.environment)

    def launch_call(self, target: EC2Target, zone: Zone) -> ApiCall:
        """The call that launches the instances; with a placeholder for a security group that is not created yet."""
        return launch_call(self, target, zone, user_data(self.host_parameters(target)))

    def calls(self) -> tuple[ApiCall, ...]:
        """All API calls of the submission, in order, if the first instance type is available; and those of further regions."""
        return (
            *self.bucket.calls,
            *self.uploads.calls(self.bucket.name, None),
            *self.log_calls,
            *self.network.calls,
            *self.code_calls(),
            *self.job_calls(self.target),
            *self._launch_calls(self.target),
            *self._other_regions_calls(),
        )

    def _other_regions_calls(self) -> tuple[ApiCall, ...]:
        """The calls that launch the first instance type of each further region, if no region before has capacity."""
        first = {target.region: target for target in reversed(self.targets)}
        return tuple(
            replace(call, what=f"without capacity in {self.regions[0]}: {call.what}")
            for region in self.regions[1:]
            for call in (*self.networks[region].calls, *self._launch_calls(first[region]))
        )

    def _launch_calls(self, target: EC2Target) -> tuple[ApiCall, ...]:
        """The calls that launch an instance type in its first zone, and those that record it."""
        zone = target.zones[0]
        record = self.record(target, zone)
        launched = replace(record, instances=(NEW_INSTANCE,) * self.job.instance_count)
        marks = () if target.region == self.region else (region_mark_call(record),)
        schedule = () if self.schedule_role is None else (termination_call(launched, self.schedule_role),)
        return (record_call(record), *marks, self.launch_call(target, zone), *schedule, record_call(launched))

    def max_cost_usd(self, target: EC2Target) -> float | None:
        """The highest possible cost on an instance type within the time limit of each attempt; None if its price is unknown.

        EC2 charges a spot instance at most the on-demand price.
        """
        if target.price is None:
            return None
        most, limit = target.price.usd_per_hour, self.job.resources.max_price
        if self.spot and limit is not None:
            most = min(most, float(limit.usd))
        return most * self.max_duration / 3600 * self.job.instance_count * (1 + self.retries.limit)

    def describe(self) -> Iterator[tuple[str, str]]:
        """The plan as labels and texts."""
        job, target, profile = self.job, self.target, self.profile
        if isinstance(job, MachineJob):
            yield "machine", machine_text(job)
        else:
            yield "script", " ".join([job.entry_point, *script_arguments(self.agent_job(target))])
        yield "code", self.tree.describe()
        yield "image", " ".join([target.ami.id, target.ami.name, f"({target.ami.because})"])
        if (container := target.container) is not None:
            yield "container", f"{container.uri} ({container.because})"
        yield "instance", instances_text(self.targets, job.instance_count)
        yield "GPU", gpu_text(job, target.expected)
        if (launcher := target.launch.describe(target.gpus, job.instance_count)) is not None:
            yield "launcher", launcher
        yield from input_lines(job, self.input_addresses, self.uploads.folders)
        yield from output_lines(job, self.output, self.outputs, self.checkpoints)
        yield "profile", profile.name + (f" ({profile.because})" if profile.because else "")
        yield "network", network_text(target, self.network.groups, job.instance_count)
        for region in self.regions[1:]:
            there = [target for target in self.targets if target.region == region]
            groups = self.networks[region].groups
            yield "region", region_text(there, groups, job.instance_count)
        yield "volume", volume_text(target)
        yield "bucket", self.bucket.name + (" (will be created)" if self.bucket.calls else "")
        yield "time limit", limit_text(self.targets, self.max_cost_usd, self.max_duration, self.retries)
        if self.schedule_role is not None:
            yield (
                "safeguard",
                f"a schedule in AWS ends it {Duration(int(MARGIN_S))} after that, if nothing else has",
            )
        if self.spot:
            yield "spot", spot_text(job, self.retries, has_checkpoints=bool(self.checkpoints))
        for warning in self.warnings:
            yield "note", warning

    def document(self) -> dict[str, Any]:
        """The plan and its API calls as JSON, version 1; environment variables are hidden."""
        return {
            "version": 1,
            "backend": "ec2",
            "run": self.run_id,
            "region": self.region,
            "retry_spot": self.retries.limit,
            "instance_types": [target_document(target, self.max_cost_usd(target)) for target in self.targets],
            "job": shown_job_document(self.agent_job(self.target)),
            "files": [{"name": name, "bytes": size} for name, size in self.files()],
            "notes": list(self.warnings),
            "regions": list(self.regions),
            "calls": [call.to_json() for call in self.calls()],
        }

    def detach_notes(self, run: Run) -> Iterator[str]:
        """What GPUproof does not do for a run that it does not follow."""
        if any(local_destinations(self.job)):
            yield f"detached: its results stay on S3; download them with: gpuproof pull {run.cli_name}"
        if self.retries.limit:
            yield "detached: it is not started again after a spot interruption (--retry-spot)"

    def _input_paths(self) -> dict[str, str]:
        """The addresses of the inputs by their paths below `/opt/ml`."""
        job = self.job
        if isinstance(job, ProcessingJob):
            paths = {name: mount.path for name, mount in job.inputs.items()}
        else:
            paths = {name: ContractPaths().channel(name) for name in job.inputs}
        return {_below_root(paths[name]): address for name, address in self.input_addresses.items()}

    def _output_paths(self) -> dict[str, str]:
        """The addresses of a processing job's outputs by their paths below `/opt/ml`."""
        if not isinstance(self.job, ProcessingJob):
            return {}
        return {_below_root(self.job.outputs[key].path): address for key, address in self.outputs.items()}


def _below_root(path: str) -> str:
    return path.removeprefix(f"{CONTRACT_ROOT}/")
