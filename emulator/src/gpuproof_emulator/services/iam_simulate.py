"""`iam:SimulatePrincipalPolicy`: every action is allowed except those that a fault denies."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gpuproof_emulator.context import Context
from gpuproof_emulator.faults.fault import Faults
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsRequest, AwsResponse, xml_response


def handle(context: Context, _: Journal, request: AwsRequest) -> AwsResponse:
    """Return the decision for each action and resource."""
    form = request.form
    actions = [form[name] for name in sorted(form) if name.startswith("ActionNames.member.")]
    resources = [form[name] for name in sorted(form) if name.startswith("ResourceArns.member.")] or ["*"]
    members = "".join(
        f"<member><EvalActionName>{escape(action)}</EvalActionName>"
        f"<EvalResourceName>{escape(resource)}</EvalResourceName>"
        f"<EvalDecision>{_decision(context.faults, action)}</EvalDecision></member>"
        for action in actions
        for resource in resources
    )
    return xml_response(
        request,
        '<SimulatePrincipalPolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/">'
        f"<SimulatePrincipalPolicyResult><IsTruncated>false</IsTruncated><EvaluationResults>{members}"
        "</EvaluationResults></SimulatePrincipalPolicyResult>"
        f"<ResponseMetadata><RequestId>{request.request_id}</RequestId></ResponseMetadata>"
        "</SimulatePrincipalPolicyResponse>",
    )


def _decision(faults: Faults, action: str) -> str:
    service, _, operation = action.partition(":")
    for fault in faults.documents():
        denied = fault["action"] or f"{fault['service']}:{fault['operation']}"
        if fault["kind"] == "access-denied" and denied in (action, f"*:{operation}", f"{service}:*", "*:*"):
            return "implicitDeny"
    return "allowed"
