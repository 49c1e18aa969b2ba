"""The type of a CloudFormation or Terraform resource."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.source.span import Span


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource of a template.

    Args:
        source: `cloudformation` or `terraform`.
        type: `AWS::SageMaker::NotebookInstance`, `aws_sagemaker_notebook_instance`.
        properties: its properties or arguments as one mapping; values of intrinsic functions and variables are unknown.
            Nested Terraform blocks are lists of mappings.
    """

    source: str
    type: str
    name: str
    properties: Value
    span: Span = field(repr=False)

    def get(self, *path: str | int) -> Value:
        """The value at a path of its properties; absent if it is certainly missing."""
        return self.properties.at(*path) if self.properties.entries is not None else ABSENT
