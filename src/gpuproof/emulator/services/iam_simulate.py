"""`iam:SimulatePrincipalPolicy`: every action is allowed, but those that a fault denies."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.protocol import Answer, AwsRequest, xml_answer


def answer(emulator: Emulator, request: AwsRequest) -> Answer:
    """What IAM would decide for each action and resource."""
    form = request.form
    actions = [form[name] for name in sorted(form) if name.startswith("ActionNames.member.")]
    resources = [form[name] for name in sorted(form) if name.startswith("ResourceArns.member.")] or ["*"]
    members = "".join(
        f"<member><EvalActionName>{escape(action)}</EvalActionName>"
        f"<EvalResourceName>{escape(resource)}</EvalResourceName>"
        f"<EvalDecision>{_decision(emulator, action)}</EvalDecision></member>"
        for action in actions
        for resource in resources
    )
    return xml_answer(
        request,
        '<SimulatePrincipalPolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/">'
        f"<SimulatePrincipalPolicyResult><IsTruncated>false</IsTruncated><EvaluationResults>{members}"
        "</EvaluationResults></SimulatePrincipalPolicyResult>"
        f"<ResponseMetadata><RequestId>{request.request_id}</RequestId></ResponseMetadata>"
        "</SimulatePrincipalPolicyResponse>",
    )


def _decision(emulator: Emulator, action: str) -> str:
    service, _, operation = action.partition(":")
    for fault in emulator.faults.documents():
        named = fault["action"] or f"{fault['service']}:{fault['operation']}"
        if fault["kind"] == "access-denied" and named in (action, f"*:{operation}", f"{service}:*", "*:*"):
            return "implicitDeny"
    return "allowed"
