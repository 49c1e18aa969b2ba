"""One resource of CloudFormation or Terraform, as rules see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuproof.check.analysis.values import ABSENT, Value
from gpuproof.check.source.span import Span


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource.

    Args:
        source: `cloudformation` or `terraform`.
        type: `AWS::SageMaker::NotebookInstance`, `aws_sagemaker_notebook_instance`.
        name: what the template calls it.
        properties: its properties or arguments as one mapping; what an intrinsic function or a variable gives is
            unknown. Nested Terraform blocks are lists of mappings.
        span: where it begins.
    """

    source: str
    type: str
    name: str
    properties: Value
    span: Span = field(repr=False)

    def get(self, *path: str | int) -> Value:
        """What stands at a path of its properties; absent where it is certainly not there."""
        return self.properties.at(*path) if self.properties.entries is not None else ABSENT
