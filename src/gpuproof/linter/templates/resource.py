"""The type of a resource of CloudFormation, Terraform or the CDK, or of what a request creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.source.span import Span


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource.

    Args:
        source: `cloudformation`, `terraform`, `cdk`, or `request` for a request of boto3 or the AWS CLI.
        type: `AWS::SageMaker::NotebookInstance`, `aws_sagemaker_notebook_instance`.
        properties: its properties or arguments as one mapping; values of intrinsic functions and variables are unknown.
            Nested Terraform blocks are lists of mappings.
        texts: texts with placeholders (`Fn::Sub`, heredocs with `${}`), whose values are unknown, by line and column.
        files: paths of files that `file()` and its relatives read, by line and column of the expression.
    """

    source: str
    type: str
    name: str
    properties: Value
    span: Span = field(repr=False)
    texts: Mapping[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str], repr=False)
    files: Mapping[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str], repr=False)

    @property
    def title(self) -> str:
        """The resource for messages: `AWS::EC2::Instance`, `aws_instance.trainer`, `run_instances`."""
        if self.source == "terraform":
            return f"{self.type}.{self.name}"
        return self.name if self.source == "request" else self.type

    def get(self, *path: str | int) -> Value:
        """The value at a path of its properties; absent if it is certainly missing."""
        return self.properties.at(*path) if self.properties.entries is not None else ABSENT

    def text_of(self, value: Value) -> str | None:
        """The text of a value, with its placeholders as they are written."""
        if value.text is not None or value.span is None:
            return value.text
        return self.texts.get((value.span.line, value.span.column))

    def file_of(self, value: Value) -> str | None:
        """The path of the file that a value is read from, relative to the template's folder."""
        return None if value.span is None else self.files.get((value.span.line, value.span.column))
