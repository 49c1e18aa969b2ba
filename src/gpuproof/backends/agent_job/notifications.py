"""Who is notified of a run, as every backend passes it to the agent. The address of a webhook travels as an environment variable only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from gpuproof.agent.job import NotifySettings
from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.catalogue.model import Price
    from gpuproof.jobs.models.script_jobs import Job
    from gpuproof.jobs.script_job import AnyJob

WEBHOOK = "GPUPROOF_WEBHOOK"
"""The variable of hosts on AWS."""

_Job = TypeVar("_Job", bound="Job")


def notify_settings(job: AnyJob, price: Price | None) -> NotifySettings | None:
    """The settings for the agent; `None` without notifications.

    Args:
        price: of one host.
    """
    notify = job.notify
    if not notify.is_set:
        return None
    return NotifySettings(
        topic=notify.topic,
        webhook_variable=notify.webhook,
        cost_usd=None if notify.cost is None else float(notify.cost.usd),
        usd_per_hour=None if price is None else round(price.usd_per_hour * job.instance_count, 6),
    )


def require_webhook(job: AnyJob, environ: Mapping[str, str]) -> None:
    """Check that the variable of the job's webhook is set.

    Raises:
        UsageError: it is not, neither in the job nor here.
    """
    name = job.notify.webhook
    if name is None or job.environment.get(name) or environ.get(name):
        return
    raise UsageError(
        f"The environment variable {name}, which notify.webhook names, is not set.",
        remedy=f"export {name}=… with the address of the webhook",
    )


def with_webhook(job: _Job, environ: Mapping[str, str]) -> _Job:
    """The job with the address of its webhook in its environment, for hosts that do not inherit this one.

    The variable then has a name that is hidden wherever requests are shown.

    Raises:
        UsageError: as `require_webhook`.
    """
    require_webhook(job, environ)
    name = job.notify.webhook
    if name is None:
        return job
    others = {variable: value for variable, value in job.environment.items() if variable != name}
    address = job.environment.get(name) or environ[name]
    return job.model_copy(
        update={
            "environment": {**others, WEBHOOK: address},
            "notify": job.notify.model_copy(update={"webhook": WEBHOOK}),
        }
    )
