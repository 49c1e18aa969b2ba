"""What notebook instances share: the lifecycle configuration and the agent. Created if missing, deleted when unused."""

from __future__ import annotations

import base64

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.errors import message_with_permission
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.remote.s3_layout import NOTEBOOKS, notebook_results
from gpuproof.backends.sagemaker.notebooks.lifecycle_script import CONFIG_PREFIX, is_own_config
from gpuproof.backends.sagemaker.notebooks.plan import NotebookPlan
from gpuproof.errors import GPUproofError

_EXISTS = "already exists"


def upload_agent(aws: Aws, plan: NotebookPlan, progress: SubmitProgress) -> bool:
    """Upload the agent, unless it is there; returns whether it was missing."""
    bucket, key = plan.bucket.name, plan.script.agent_key
    found = aws.object(bucket, key)
    if found is not None and found.size == plan.agent.size:
        return False
    progress.step("upload the agent")
    plan.agent.check_unchanged()
    aws.upload_file(bucket, key, plan.agent.path)
    return True


def create_config(aws: Aws, plan: NotebookPlan, progress: SubmitProgress) -> bool:
    """Create the lifecycle configuration, unless it exists; returns whether it did not."""
    if aws.describe_lifecycle_config(plan.script.config_name) is not None:
        return False
    progress.step(f"create the lifecycle configuration {plan.script.config_name}")
    try:
        execute(aws, plan.config_call)
    except AwsRefused as refused:
        # Another command created the same one in the meantime: its name is its content's hash.
        if _EXISTS not in refused.aws_message:
            raise
        return False
    return True


def delete_unused(aws: Aws, config: str | None, bucket: str | None, agent: str = "") -> list[str]:
    """Delete a lifecycle configuration that no notebook instance uses, and agents that no configuration names.

    Args:
        config: its name; only GPUproof's own are deleted.
        bucket: with the agents; None if it is unknown.
        agent: key of an agent that the configuration may not name.

    Returns:
        Messages about what could not be deleted.
    """
    if config is None or not is_own_config(config):
        return []
    try:
        if next(iter(aws.list_notebooks(lifecycle_config=config)), None) is not None:
            return []
        description = aws.describe_lifecycle_config(config)
        aws.delete_lifecycle_config(config)
    except GPUproofError as error:
        return [f"the lifecycle configuration {config}: {message_with_permission(error)}"]
    if bucket is None:
        return []
    return delete_unused_agents(
        aws, bucket, agent + (_script(description) if description is not None else "")
    )


def delete_unused_agents(aws: Aws, bucket: str, text: str) -> list[str]:
    """Delete the agents whose keys a text contains, unless a lifecycle configuration of GPUproof's names them.

    Returns:
        Messages about what could not be deleted.
    """
    try:
        _delete_agents(aws, bucket, text)
    except GPUproofError as error:
        return [f"the agent in s3://{bucket}/{NOTEBOOKS}: {message_with_permission(error)}"]
    return []


def delete_results(aws: Aws, bucket: str, name: str) -> list[str]:
    """Delete what a notebook instance reported; returns messages about what could not be deleted."""
    prefix = f"{notebook_results(name)}/"
    try:
        aws.delete_objects(bucket, [item.key for item in aws.list_objects(bucket, prefix)])
    except GPUproofError as error:
        return [f"s3://{bucket}/{prefix}: {message_with_permission(error)}"]
    return []


def _delete_agents(aws: Aws, bucket: str, script: str) -> None:
    """Delete the agents that a script names, unless another lifecycle configuration does, too."""
    keys = [item.key for item in aws.list_objects(bucket, f"{NOTEBOOKS}agents/") if item.key in script]
    if not keys:
        return
    configs = [
        config["NotebookInstanceLifecycleConfigName"] for config in aws.lifecycle_configs(CONFIG_PREFIX)
    ]
    others = [
        _script(description)
        for name in configs
        if name.startswith(CONFIG_PREFIX) and (description := aws.describe_lifecycle_config(name)) is not None
    ]
    aws.delete_objects(bucket, [key for key in keys if not any(key in other for other in others)])


def _script(description: dict[str, object]) -> str:
    hooks = description.get("OnStart")
    texts = [str(hook.get("Content", "")) for hook in hooks] if isinstance(hooks, list) else []
    return "".join(base64.b64decode(text).decode(errors="replace") for text in texts)
