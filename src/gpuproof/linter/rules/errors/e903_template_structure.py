"""A CloudFormation template has a resource without a type, or a key twice: it is rejected, or a value is not used.

CloudFormation reads a template only if `Resources` is a mapping of names to resources, each with a `Type` and with
`Properties` that are a mapping. Of a key that is written twice, one value is dropped without a message. Source:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/resources-section-structure.html.

Bad: no type

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Resources:
      Notebook:  # <-
        Properties:
          InstanceType: ml.t3.medium
          RoleArn: !ImportValue Role

Good:

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Resources:
      Notebook:
        Type: AWS::SageMaker::NotebookInstance
        Properties:
          InstanceType: ml.t3.medium
          RoleArn: !ImportValue Role
          DirectInternetAccess: Disabled
          SubnetId: !ImportValue Subnet

Bad: a key twice

    # file: template.yaml
    Resources:
      Notebook:
        Type: AWS::SageMaker::NotebookInstance
        Properties:
          InstanceType: ml.t3.medium
          RoleArn: !ImportValue Role
          InstanceType: ml.g4dn.xlarge  # <-

Bad: in a request

    # file: job.json
    {
      "TrainingJobName": "train",
      "ResourceConfig": {
        "InstanceType": "ml.g5.xlarge",
        "InstanceCount": 1,
        "InstanceType": "ml.m5.xlarge"
      }
    }

Quiet: macros and loops make the types

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Transform: AWS::LanguageExtensions
    Resources:
      Fn::ForEach::Notebooks:
        - Name
        - [a, b]
        - "Notebook${Name}":
            Type: AWS::SageMaker::NotebookInstance
"""

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.structure import structure_problems

rule = Rule(
    "E903", "template-structure", Severity.ERROR, kinds=("cloudformation", "request", "kubernetes", "compose")
)


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    for problem in structure_problems(unit):
        yield rule.hit(
            unit.span(problem.line, problem.column),
            problem.message,
            remedy=problem.remedy,
            severity=rule.severity if problem.is_rejected else Severity.WARNING,
        )
