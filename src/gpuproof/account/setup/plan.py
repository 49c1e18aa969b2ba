"""Decides what of the setup an account lacks, and with which calls it is created."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpuproof.account.setup.permissions import actions_of
from gpuproof.account.setup.quotas import QuotaState
from gpuproof.account.setup.state import POLICY_NAME, SETUP_TAG, VPC_INTENT_TAG, State
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.backends.aws.unknown_account import VPC
from gpuproof.backends.display import Displayed
from gpuproof.backends.ec2.planning.network import GROUP_NAME, creation_call
from gpuproof.backends.remote.bucket import creation_calls
from gpuproof.backends.remote.iam.policy import ROLE_NAMES, SERVICES, Scope, role_policy, trust_policy

TAGS = {SETUP_TAG: "true"}

PURPOSES = {
    "sagemaker": "training and processing jobs, endpoints and notebook instances on SageMaker",
    "ec2": "instances on EC2",
    "scheduler": "schedules, which delete the endpoints of `gpuproof deploy --ttl` and terminate instances that nothing else has ended",
}
"""What each role is for, by backend."""


@dataclass(frozen=True)
class Part:
    """One part of the setup.

    Args:
        kind: such as `role`.
        name: its name or id.
        purpose: what it is for.
        state: `exists`; `missing`; `incomplete`, if setup was interrupted; `unusable`, if something else has its name.
        calls: what creates or completes it.
        policy: what a role may do; None for other kinds.
        trust: who may assume it.
        note: what the user should know about it.
    """

    kind: str
    name: str
    purpose: str
    state: Literal["exists", "missing", "incomplete", "unusable"]
    calls: tuple[ApiCall, ...] = ()
    policy: Mapping[str, Any] | None = None
    trust: Mapping[str, Any] | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """A member of the JSON form of `gpuproof setup`."""
        return {
            "kind": self.kind,
            "name": self.name,
            "purpose": self.purpose,
            "state": self.state,
            "policy": self.policy,
            "trust_policy": self.trust,
            "note": self.note or None,
            "calls": [call.to_json() for call in self.calls],
        }


@dataclass(frozen=True, repr=False)
class SetupPlan(Displayed):
    """The setup of one account and region.

    Args:
        parts: everything that a run needs, in the order in which it is created.
        quotas: of the instance types that the user named, or of common ones.
    """

    account: str
    region: str
    parts: tuple[Part, ...]
    quotas: tuple[QuotaState, ...] = ()

    @property
    def title(self) -> str:
        """The account and the region."""
        return f"setup of {self.account} in {self.region}"

    @property
    def calls(self) -> tuple[ApiCall, ...]:
        """All calls, in order."""
        return tuple(call for part in self.parts for call in part.calls)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing and nothing is unusable."""
        return all(part.state == "exists" for part in self.parts)

    @property
    def permissions(self) -> tuple[str, ...]:
        """The IAM actions that the calls need."""
        return actions_of(self.calls)

    def describe(self) -> list[tuple[str, str]]:
        """The plan for the user: labels and texts."""
        lines = [("account", f"{self.account} in {self.region}")]
        for part in self.parts:
            text = f"{part.kind} {part.name}: for {part.purpose}"
            texts = [text, *_statements(part), *([part.note] if part.note else [])]
            lines.append((_LABELS[part.state], "\n".join(texts)))
        lines += [
            ("quota" if quota.suffices is not False else "too small", quota.text) for quota in self.quotas
        ]
        if self.calls:
            lines.append(("you need", " ".join(self.permissions)))
        return lines

    def to_json(self) -> dict[str, Any]:
        """The JSON form of `gpuproof setup --format json`."""
        return {
            "version": 1,
            "account": self.account,
            "region": self.region,
            "complete": self.is_complete,
            "parts": [part.to_json() for part in self.parts],
            "quotas": [quota.to_json() for quota in self.quotas],
            "permissions": list(self.permissions),
        }


_LABELS = {"exists": "exists", "missing": "create", "incomplete": "complete", "unusable": "unusable"}


def plan_setup(state: State, quotas: Sequence[QuotaState] = ()) -> SetupPlan:
    """What an account lacks."""
    parts = (*_roles(state), _profile(state), _bucket(state), *_network(state))
    return SetupPlan(state.account, state.region, parts, tuple(quotas))


def role_scope(backend: str, account: str, partition: str, region: str) -> Scope:
    """The scope of a role's policy. Roles serve all regions of a partition, so that a second region needs no second setup."""
    return Scope(backend=backend, account=account, region="*" if partition == "aws" else region)


def _roles(state: State) -> Iterator[Part]:
    for backend, name in ROLE_NAMES.items():
        scope = role_scope(backend, state.account, state.partition, state.region)
        policy, trust = role_policy(scope), trust_policy(scope)
        part = Part("role", name, PURPOSES[backend], "exists", policy=policy, trust=trust)
        found = state.roles.get(backend)
        put = _put_policy(name, policy, None if found is None else found.policy)
        if found is None:
            yield _with(part, "missing", (_create_role(name, trust, PURPOSES[backend]), put))
        elif SERVICES[backend] not in found.trusted_services:
            note = f"it exists, but {SERVICES[backend]} may not assume it; delete it, or name another role with --role"
            yield _with(part, "unusable", (), note)
        elif found.is_own and found.policy != policy:
            yield _with(part, "incomplete", (put,))
        elif not found.is_own and found.policy is None:
            yield _with(part, "exists", (), "setup did not create it; its permissions were not checked")
        else:
            yield part


def _put_policy(name: str, policy: Mapping[str, Any], old: Mapping[str, Any] | None) -> ApiCall:
    """PutRolePolicy; its undo restores the old policy."""
    member = {"RoleName": name, "PolicyName": POLICY_NAME}
    undo = ApiCall("iam", "delete_role_policy", member, f"delete the policy of the role {name}")
    if old is not None:
        restored = {**member, "PolicyDocument": json.dumps(old)}
        undo = ApiCall("iam", "put_role_policy", restored, f"return the policy of the role {name}")
    request = {**member, "PolicyDocument": json.dumps(policy)}
    return ApiCall("iam", "put_role_policy", request, f"attach its policy to the role {name}", undo)


def _create_role(name: str, trust: Mapping[str, Any], purpose: str) -> ApiCall:
    request = {
        "RoleName": name,
        "AssumeRolePolicyDocument": json.dumps(trust),
        "Description": f"GPUproof: {purpose}".replace("`", ""),
        "Tags": tag_list(TAGS),
    }
    undo = ApiCall("iam", "delete_role", {"RoleName": name}, f"delete the role {name}")
    return ApiCall("iam", "create_role", request, f"create the role {name}", undo)


def _profile(state: State) -> Part:
    name = ROLE_NAMES["ec2"]
    part = Part("instance profile", name, "instances on EC2, which get the role of that name by it", "exists")
    named, member = {"InstanceProfileName": name}, {"InstanceProfileName": name, "RoleName": name}
    undo = ApiCall("iam", "delete_instance_profile", named, f"delete the instance profile {name}")
    what = f"create the instance profile {name}"
    create = ApiCall("iam", "create_instance_profile", {**named, "Tags": tag_list(TAGS)}, what, undo)
    out = f"remove the role from the instance profile {name}"
    remove = ApiCall("iam", "remove_role_from_instance_profile", member, out)
    add = ApiCall("iam", "add_role_to_instance_profile", member, f"add the role {name} to it", remove)
    if state.profile is None:
        return _with(part, "missing", (create, add))
    if not state.profile.is_complete:
        return _with(part, "incomplete", (add,))
    return part


def _bucket(state: State) -> Part:
    name = state.bucket_name
    part = Part("bucket", name, "code, inputs and results: private, encrypted, TLS only", "exists")
    calls = tuple(creation_calls(name, state.region, state.partition, TAGS))
    if state.bucket is None:
        return _with(part, "missing", calls)
    if not state.bucket.is_complete:
        return _with(part, "incomplete", calls[1:])
    return part


def _network(state: State) -> Iterator[Part]:
    """The default VPC and GPUproof's security group in it."""
    purpose = "instances on EC2, which need a way to S3"
    before, after = _announcement(state)
    if state.vpc is not None:
        vpc = state.vpc.id
        part = Part("default VPC", vpc, purpose, "exists")
        tag = ApiCall("ec2", "create_tags", {"Resources": [vpc], "Tags": tag_list(TAGS)}, "tag it as setup's")
        note = "a setup was interrupted while it created it"
        yield part if state.vpc.is_complete else _with(part, "incomplete", (tag, after), note)
    else:
        vpc = VPC
        undo = ApiCall(
            "ec2", "delete_vpc", {"VpcId": VPC}, "delete the default VPC with its subnets and gateway"
        )
        create = ApiCall(
            "ec2", "create_default_vpc", {}, "create the default VPC, with a subnet in each zone", undo
        )
        tag = ApiCall("ec2", "create_tags", {"Resources": [VPC], "Tags": tag_list(TAGS)}, "tag it as setup's")
        calls = (before, create, tag, after)
        yield Part("default VPC", f"of {state.region}", purpose, "missing", calls)
    name = f"{GROUP_NAME} in {vpc}"
    part = Part("security group", name, "instances on EC2: no inbound connections", "exists")
    if state.group is not None:
        yield part
        return
    call = creation_call(vpc, TAGS)
    undo = ApiCall(
        "ec2", "delete_security_group", {"GroupName": GROUP_NAME}, f"delete the security group {GROUP_NAME}"
    )
    yield _with(part, "missing", (replace(call, undo=undo),))


def _announcement(state: State) -> tuple[ApiCall, ApiCall]:
    """The calls that note in the bucket's tags that setup is about to create the default VPC, and that it has.

    CreateDefaultVpc takes no tags: without the note, `--remove` would not know the VPC of a setup that is killed then.
    """
    retracted = retract_vpc_intent(state)
    noted = [*retracted.request["Tagging"]["TagSet"], *tag_list({VPC_INTENT_TAG: "true"})]
    request = {**retracted.request, "Tagging": {"TagSet": noted}}
    what = "note in the bucket's tags that setup creates the default VPC"
    return ApiCall("s3", "put_bucket_tagging", request, what, retracted), retracted


def retract_vpc_intent(state: State) -> ApiCall:
    """PutBucketTagging with the bucket's tags, without that of a default VPC that is being created."""
    known = {"gpuproof:kind": "bucket", **TAGS}
    if state.bucket is not None and state.bucket.is_complete:
        known = {name: value for name, value in state.bucket.tags.items() if name != VPC_INTENT_TAG}
    return ApiCall(
        "s3",
        "put_bucket_tagging",
        {"Bucket": state.bucket_name, "Tagging": {"TagSet": tag_list(known)}},
        "remove that note",
    )


def _with(
    part: Part,
    state: Literal["exists", "missing", "incomplete", "unusable"],
    calls: tuple[ApiCall, ...],
    note: str = "",
) -> Part:
    return replace(part, state=state, calls=calls, note=note)


def _statements(part: Part) -> list[str]:
    """What a new role may do, a line for each statement of its policy."""
    if part.policy is None or not part.calls:
        return []
    return [
        f"may {' '.join(statement['Action'])} on {' '.join(statement['Resource'])}"
        for statement in part.policy["Statement"]
    ]
