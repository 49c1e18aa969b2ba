"""The user data of EC2 instances: the script that runs at the first start."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpuproof.linter.analysis.values import Value
from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.source.project_root import launch_folders
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

_PROPERTIES = {
    "AWS::EC2::Instance": ("InstanceType", "UserData"),
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateData.InstanceType", "LaunchTemplateData.UserData"),
    "aws_instance": ("instance_type", "user_data"),
    "aws_spot_instance_request": ("instance_type", "user_data"),
    "aws_launch_template": ("instance_type", "user_data"),
}


class UserData(NamedTuple):
    """The user data of one resource.

    Attributes:
        text: the script; empty if there is none.
        is_known: whether the whole script is known, without placeholders.
    """

    instance_type: Value
    text: str
    is_known: bool
    span: Span


def user_data_of(resource: Resource, workspace: Workspace) -> UserData | None:
    """The user data of a resource that starts an instance; None for other resources."""
    names = _PROPERTIES.get(resource.type)
    if names is None:
        return None
    kind, data = (resource.get(*name.split(".")) for name in names)
    span = data.span or resource.span
    if data.is_absent:
        return UserData(kind, "", True, span)
    text = resource.text_of(data)
    file = resource.file_of(data)
    if text is None and file is not None:
        for base in launch_folders(resource.span.unit.absolute):
            unit = workspace.text_file(base / os.path.normpath(file))
            if unit is not None:
                return UserData(kind, unit.source, True, span)
    return UserData(kind, text or "", data.text is not None, span)
