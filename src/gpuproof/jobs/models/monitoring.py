"""What a job reports to others while it runs: sinks of its series and summary, and notifications of its troubles."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gpuproof.agent.sinks.main import NAMES
from gpuproof.jobs import validators
from gpuproof.jobs.options import JOB, Option
from gpuproof.jobs.strict_model import StrictModel
from gpuproof.jobs.suggestions import did_you_mean
from gpuproof.units import Money

_WITH_TARGET = {"opentelemetry": "an http address", "prometheus": "a folder, an http address or a port"}


def check_sink(text: str) -> str:
    """Checks a sink, a name with or without a target."""
    name, separator, target = text.partition("=")
    if name not in NAMES:
        near = did_you_mean(name, NAMES) or f"; known are {', '.join(NAMES)}"
        raise ValueError(f"there is no sink '{name}'{near}")
    if separator and name not in _WITH_TARGET:
        raise ValueError(f"{name} has no target; write {name}, and configure it by its environment variables")
    if separator and not target:
        raise ValueError(f"the target of {name} is empty: write {_WITH_TARGET[name]}")
    if name == "prometheus" and not separator:
        raise ValueError(
            "prometheus needs a target, as in prometheus=/var/lib/node_exporter, =http://pushgateway:9091 or =:9400"
        )
    if "://" in target:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"'{target}' is not an http or https address")
        if parts.username or parts.password or parts.query:
            raise ValueError(
                f"the address of {name} contains a user or a query, which logs would show: use an address without one"
            )
    elif name == "opentelemetry" and separator:
        raise ValueError(f"'{target}' is not an http or https address")
    return text


def check_sinks(sinks: tuple[Any, ...]) -> tuple[Any, ...]:
    """Checks that no sink is named twice."""
    names = [str(sink).partition("=")[0] for sink in sinks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is named twice")
    return sinks


Sinks = Annotated[
    tuple[Annotated[str, AfterValidator(check_sink)], ...],
    AfterValidator(check_sinks),
]


_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}")


def check_topic(text: str) -> str:
    """Checks the ARN of a standard SNS topic."""
    if text.endswith(".fifo"):
        raise ValueError(
            f"{text} is a FIFO topic, to which no e-mail address can be subscribed: use a standard topic"
        )
    if not _TOPIC.fullmatch(text):
        raise ValueError(f"'{text}' is not the ARN of an SNS topic (aws sns list-topics)")
    return text


def check_webhook(text: str) -> str:
    """Checks the name of the variable; an address itself is not repeated, because it is a secret."""
    if "://" in text:
        raise ValueError(
            "it is an address, which is a secret: put it into an environment variable, and write the variable's name"
        )
    return validators.check_variable(text)


class Notify(StrictModel):
    """Who is notified from the host when the job stalls, leaves a GPU unused, fails, or costs more than `cost`."""

    topic: Annotated[
        Annotated[str, AfterValidator(check_topic)] | None, Option("ARN", flag="--notify-topic", group=JOB)
    ] = Field(
        default=None,
        description="SNS topic that is notified if the job stalls, leaves a GPU unused or fails.",
        examples=["arn:aws:sns:us-east-1:123456789012:runs"],
    )
    webhook: Annotated[
        Annotated[str, AfterValidator(check_webhook)] | None,
        Option("VARIABLE", flag="--notify-webhook", group=JOB),
    ] = Field(
        default=None,
        description="Environment variable with the address of a webhook (Slack, Teams, Discord) that is notified likewise.",
        examples=["SLACK_WEBHOOK_URL"],
    )
    cost: Annotated[Money | None, Option("USD", flag="--notify-cost", group=JOB)] = Field(
        default=None,
        description="Cost of the job so far at which they are notified, too.",
        examples=["$20"],
    )

    @property
    def is_set(self) -> bool:
        """Whether anybody is notified."""
        return self.topic is not None or self.webhook is not None
