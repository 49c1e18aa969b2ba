"""Random accounts for property tests of `gpuproof cleanup`: what is created over HTTP, and what a deletion changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from support.cleanup_oracle import Facts
from support.emulated_account import DAY, IMAGE, EmulatedAccount

REGIONS = ("us-east-1", "eu-west-1")
WINDOW = 14 * DAY
"""The time for which invocations are examined."""

_CPU = {"ml.m5.large", "ml.t3.medium", "m5.large"}


@dataclass(frozen=True)
class Item:
    """One thing to create, with its dependents.

    Args:
        kind: as in `Facts`.
        region: where it is.
        name: an endpoint's name, and the beginning of those of its dependents; ids of EC2 are not known before.
        owned: whether it has a tag of GPUproof.
        instance: its instance type.
        old: whether it was created ten days ago, not an hour ago.
        invoked: whether an endpoint was invoked five hours ago.
        extra: for an endpoint, whether it has a configuration before the last update, a schedule and a file; for others, whether
            they are stopped.
        shares: whether an endpoint's configuration is used by a second endpoint, which is nobody's.
    """

    kind: str
    region: str
    name: str
    owned: bool
    instance: str
    old: bool
    invoked: bool
    extra: bool
    shares: bool

    @property
    def age(self) -> float:
        return 10 * DAY if self.old else 3600.0

    @property
    def tags(self) -> dict[str, str]:
        return {"gpuproof:job": "j"} if self.owned else {"team": "x"}


@dataclass(frozen=True)
class Existing:
    """A resource that cleanup finds by itself.

    Args:
        facts: what decides whether it is covered.
        gone: the keys of the state that disappear with it.
        halted: the keys that are stopped instead.
    """

    facts: Facts
    gone: tuple[str, ...] = ()
    halted: tuple[str, ...] = ()


_INSTANCES = {
    "endpoint": ("ml.g5.xlarge", "ml.m5.large"),
    "notebook": ("ml.g5.xlarge", "ml.t3.medium"),
    "training-job": ("ml.g5.xlarge", "ml.m5.large"),
    # With local disks, without, and without a GPU.
    "instance": ("g5.xlarge", "p3.2xlarge", "m5.large"),
    "volume": ("",),
    "model": ("",),
    "endpoint-config": ("",),
    "schedule": ("",),
}


@st.composite
def items(draw: st.DrawFn) -> Item:
    # Endpoints have the most dependents.
    kind = draw(st.sampled_from(["endpoint", "endpoint", *_INSTANCES]))
    old = draw(st.booleans())
    return Item(
        kind,
        draw(st.sampled_from(REGIONS)),
        f"{kind[0]}-{draw(st.sampled_from('ab'))}",
        draw(st.booleans()),
        draw(st.sampled_from(_INSTANCES[kind])),
        old,
        draw(st.booleans()) and old,
        draw(st.booleans()),
        draw(st.booleans()) and kind == "endpoint",
    )


def create(account: EmulatedAccount, those: list[Item]) -> list[Existing]:
    """Create everything, and return what a cleanup finds."""
    return [found for item in those for found in _CREATE[item.kind](account, item)]


def expected(before: Mapping[str, Any], covered: list[Existing]) -> dict[str, Any]:
    """The state after all that is covered was deleted or stopped, by `settled`."""
    gone = {key for item in covered for key in item.gone}
    halted = {key for item in covered for key in item.halted}
    return {key: "stopped" if key in halted else value for key, value in before.items() if key not in gone}


def settled(state: Mapping[str, Any], halted: set[str]) -> dict[str, Any]:
    """A state in which what may be stopped is only `stopped` or not, and what is being deleted or terminated does not exist."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        if value in ("shutting-down", "terminated"):
            continue
        status = value
        if isinstance(value, dict):
            status = value.get("NotebookInstanceStatus") or value.get("TrainingJobStatus")
        if status == "Deleting":
            continue
        is_halted = key in halted and str(status).lower() in ("stopping", "stopped")
        found[key] = "stopped" if is_halted else value
    return found


def _endpoint(account: EmulatedAccount, item: Item) -> list[Existing]:
    region, name = item.region, item.name
    account.endpoint(name, region, instance=item.instance, tags=item.tags, age=item.age)
    if item.invoked:
        account.invoked(name, 5 * 3600.0, region)
    gone = [f"{region}/endpoint/{name}"]
    parts = [] if item.shares else [f"{region}/endpoint-config/{name}-config", f"{region}/model/{name}-model"]
    if item.extra:
        parts += _updated(account, item)
        account.schedule(f"gpuproof-ttl-{name}", name, region)
        parts.append(f"{region}/schedule/gpuproof-ttl-{name}")
    idle = min(WINDOW, item.age)
    if item.invoked:
        idle = 5 * 3600.0
    facts = Facts(
        "endpoint", region, name, item.owned, item.age, idle, item.instance not in _CPU, arn=_arn(item)
    )
    found = [Existing(facts, (*gone, *(parts if item.owned else ())))]
    if item.shares:
        second = f"{name}-second"
        account.endpoint(second, region, age=item.age, config=f"{name}-config")
        also = replace(
            facts, name=second, owned=False, idle=min(WINDOW, item.age), arn=f"{_arn(item)}-second"
        )
        found.append(Existing(also, (f"{region}/endpoint/{second}",)))
    return found


def _updated(account: EmulatedAccount, item: Item) -> list[str]:
    """The configuration and the model before the last update, with a file in S3; their tags name the endpoint."""
    region, name = item.region, f"{item.name}-previous"
    bucket = f"gpuproof-123456789012-{region}"
    s3 = account.client("s3", "us-east-1")
    s3.create_bucket(Bucket=bucket)
    own, others = f"gpuproof/endpoints/{name}/model.tar.gz", f"gpuproof/endpoints/{name}-x/model.tar.gz"
    for key in (own, others):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    tags = {"gpuproof:endpoint": item.name, "gpuproof:bucket": bucket}
    _model_and_config(account, region, name, tags)
    # Without a tag of its own, the endpoint is not GPUproof's, and all of this stays.
    return [f"{region}/endpoint-config/{name}", f"{region}/model/{name}", f"s3://{bucket}/{own}"]


def _model_and_config(
    account: EmulatedAccount, region: str, name: str, tags: Mapping[str, str], *, config: bool = True
) -> None:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    sagemaker = account.client("sagemaker", region)
    sagemaker.create_model(ModelName=name, PrimaryContainer={"Image": IMAGE}, Tags=listed)
    if config:
        variant = {
            "VariantName": "main",
            "ModelName": name,
            "InstanceType": "ml.g5.xlarge",
            "InitialInstanceCount": 1,
        }
        sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant], Tags=listed)


def _notebook(account: EmulatedAccount, item: Item) -> list[Existing]:
    status = "Stopped" if item.extra else "InService"
    account.notebook(
        item.name, item.region, instance=item.instance, status=status, tags=item.tags, age=item.age
    )
    key = f"{item.region}/notebook-instance/{item.name}"
    facts = _facts(item, holds_data=item.extra)
    return [Existing(facts, (key,)) if item.extra else Existing(facts, halted=(key,))]


def _job(account: EmulatedAccount, item: Item) -> list[Existing]:
    account.job(item.name, item.region, instance=item.instance, tags=item.tags, age=item.age)
    return [Existing(_facts(item, runs_job=True), halted=(f"{item.region}/training-job/{item.name}",))]


def _instance(account: EmulatedAccount, item: Item) -> list[Existing]:
    region = item.region
    tags = {"gpuproof:run": "r"} if item.owned else item.tags
    made = account.instance(region, item.instance, tags)
    ec2 = account.client("ec2", region)
    if item.extra:
        ec2.stop_instances(InstanceIds=[made])
    disks = ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [made]}])["Volumes"]
    key = f"{region}/instance/{made}"
    terminated = item.extra or item.owned
    facts = replace(
        _facts(item),
        name=made,
        age=0.0,
        arn="",
        holds_data=item.extra or (not item.owned and item.instance == "g5.xlarge"),
        runs_job=item.owned and not item.extra,
    )
    if not terminated:
        return [Existing(facts, halted=(key,))]
    return [Existing(facts, (key, *(f"{region}/volume/{disk['VolumeId']}" for disk in disks)))]


def _volume(account: EmulatedAccount, item: Item) -> list[Existing]:
    made = account.volume(item.region)
    facts = replace(_facts(item, holds_data=True), name=made, age=0.0, owned=False, arn="")
    return [Existing(facts, (f"{item.region}/volume/{made}",))]


def _model(account: EmulatedAccount, item: Item) -> list[Existing]:
    _model_and_config(account, item.region, item.name, item.tags, config=False)
    return [Existing(_free(account, item), (f"{item.region}/model/{item.name}",))]


def _config(account: EmulatedAccount, item: Item) -> list[Existing]:
    _model_and_config(account, item.region, item.name, item.tags)
    made = _free(account, item)
    model = replace(made, kind="model", arn=made.arn.replace(":endpoint-config/", ":model/"))
    return [
        Existing(made, (made.key,)),
        # The configuration is unused itself: nothing keeps its model.
        Existing(replace(model, age=0.0), (model.key,)),
    ]


def _schedule(account: EmulatedAccount, item: Item) -> list[Existing]:
    name = f"gpuproof-ttl-lost-{item.name}"
    account.schedule(name, "nothing", item.region)
    facts = Facts("schedule", item.region, name, owned=True, has_gpu=False)
    return [Existing(facts, (facts.key,))]


def _free(account: EmulatedAccount, item: Item) -> Facts:
    """What costs nothing, which becomes as old as the item says."""
    made = account.emulator.context.store.get(item.kind, item.region, item.name)
    assert made is not None
    with account.emulator.context.store.modify(made):
        made.document["CreationTime"] = time.time() - item.age
    return replace(_facts(item), has_gpu=False)


def _facts(item: Item, **more: Any) -> Facts:
    has_gpu = item.instance not in _CPU
    return Facts(
        item.kind, item.region, item.name, item.owned, item.age, has_gpu=has_gpu, arn=_arn(item), **more
    )


def _arn(item: Item) -> str:
    word = {"notebook": "notebook-instance"}.get(item.kind, item.kind)
    return f"arn:aws:sagemaker:{item.region}:123456789012:{word}/{item.name}"


_CREATE = {
    "endpoint": _endpoint,
    "notebook": _notebook,
    "training-job": _job,
    "instance": _instance,
    "volume": _volume,
    "model": _model,
    "endpoint-config": _config,
    "schedule": _schedule,
}
