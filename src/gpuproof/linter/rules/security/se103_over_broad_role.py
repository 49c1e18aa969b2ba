"""The role of the jobs has all permissions in the account, and so has every library that a training script imports.

A SageMaker job reads data, pulls an image, and writes a model and logs. With AdministratorAccess, or `Action: "*"` on
`Resource: "*"`, a compromised package or notebook controls the whole account. Checkov has a similar check,
CKV2_AWS_68. SageMaker's own managed policies are not reported.

Bad:

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Resources:
      ExecutionRole:
        Type: AWS::IAM::Role
        Properties:
          AssumeRolePolicyDocument:
            Statement:
              - Effect: Allow
                Principal: {Service: sagemaker.amazonaws.com}
                Action: sts:AssumeRole
          ManagedPolicyArns:
            - arn:aws:iam::aws:policy/AdministratorAccess

Bad:

    import boto3
    import sagemaker

    boto3.client("iam").attach_role_policy(
        RoleName="sagemaker-execution", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess"  # <-
    )

Good:

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Resources:
      ExecutionRole:
        Type: AWS::IAM::Role
        Properties:
          AssumeRolePolicyDocument:
            Statement:
              - Effect: Allow
                Principal: {Service: sagemaker.amazonaws.com}
                Action: sts:AssumeRole
          ManagedPolicyArns:
            - arn:aws:iam::aws:policy/AmazonSageMakerFullAccess

Quiet: a role that SageMaker does not use

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Resources:
      BreakGlass:
        Type: AWS::IAM::Role
        Properties:
          AssumeRolePolicyDocument:
            Statement:
              - Effect: Allow
                Principal: {AWS: "arn:aws:iam::111122223333:root"}
                Action: sts:AssumeRole
          ManagedPolicyArns:
            - arn:aws:iam::aws:policy/AdministratorAccess

Quiet: the policy is a variable

    import boto3
    import sagemaker

    def attach(policy):
        boto3.client("iam").attach_role_policy(RoleName="sagemaker-execution", PolicyArn=policy)
"""

from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

rule = Rule("SE103", "over-broad-role", Severity.WARNING, needs=("AdministratorAccess",))

_ADMINISTRATOR = ":policy/AdministratorAccess"


@rule.resource
def check_resource(resource: Resource, _: Project) -> Hits:
    if resource.type != "AWS::IAM::Role":
        return
    if "sagemaker.amazonaws.com" not in str(resource.get("AssumeRolePolicyDocument").plain()):
        return
    for policy in resource.get("ManagedPolicyArns").items or ():
        if policy.is_known and (policy.text or "").endswith(_ADMINISTRATOR):
            yield _hit(policy.span or resource.span, f"`{resource.name}`", "AdministratorAccess")
    for policy in resource.get("Policies").items or ():
        for statement in _statements(policy.at("PolicyDocument", "Statement")):
            if _allows_everything(statement):
                yield _hit(
                    statement.at("Action").span or resource.span,
                    f"`{resource.name}`",
                    'Action "*" on Resource "*"',
                )


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.mentions("sagemaker") or is_test(module):
        return
    for call in calls_named(module, "attach_role_policy"):
        policy, role = call.argument("PolicyArn"), call.argument("RoleName")
        if (
            policy.is_known
            and (policy.text or "").endswith(_ADMINISTRATOR)
            and "sagemaker" in (role.text or "").lower()
        ):
            yield _hit(policy.span or call.span, f"`{role.text}`", "AdministratorAccess")


def _statements(value: Value) -> Iterator[Value]:
    yield from value.items if value.items is not None else (value,)


def _allows_everything(statement: Value) -> bool:
    allowed = statement.at("Effect").text == "Allow"
    return allowed and all(_is_star(statement.at(key)) for key in ("Action", "Resource"))


def _is_star(value: Value) -> bool:
    return value.text == "*" or any(item.text == "*" for item in value.items or ())


def _hit(span: Span, role: str, what: str) -> Hit:
    return rule.hit(
        span,
        f"SageMaker runs jobs with {role}, which has {what}.",
        remedy="Grant only what the job needs: its buckets, its images, its logs.",
    )
