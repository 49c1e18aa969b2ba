"""The service quota that applies to an instance, and how to request an increase."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuproof.catalogue.model import Instance, JobKind, QuotaLimit, QuotaRow

CONSOLES = (("cn-", "console.amazonaws.cn"), ("us-gov-", "console.amazonaws-us-gov.com"))
"""Console domains outside the standard partition, by region prefix."""


class Quota(NamedTuple):
    """One quota of one account and region.

    Attributes:
        service: `ec2` or `sagemaker`.
        name: as the Service Quotas console shows it.
        code: such as `L-DB2E81BA`; None if no source has it or sources disagree.
        unit: `vCPU` or `instance`.
        needed: units that the instances use; None if their number of vCPUs is unknown.
        default: in a new account; None if unknown.
        limit: the account's value at the last refresh; None without one.
        console_url: page of the quota, where an increase can be requested.
        command: requests `needed`, or finds the code if that is unknown.
    """

    service: str
    name: str
    code: str | None
    unit: str
    needed: int | None
    default: float | None
    limit: float | None
    console_url: str
    command: str
    note: str
    source: str


def find_quota(
    rows: Sequence[QuotaRow],
    limits: Mapping[tuple[str, str, str], QuotaLimit],
    instance: Instance,
    region: str,
    use: JobKind | None,
    market: str,
    instances: int,
) -> Quota | None:
    """Returns the quota for a number of instances; None if no row covers them."""
    row = _sagemaker_row(rows, instance.name, use, market) if use else _ec2_row(rows, instance, market)
    if row is None:
        return None
    name = row.name.format(type=instance.name)
    limit = limits.get((row.service, region, name))
    code = (limit.code if limit else "") or row.code or None
    needed = instances if row.unit == "instance" else instance.vcpus and instance.vcpus * instances
    return Quota(
        service=row.service,
        name=name,
        code=code,
        unit=row.unit,
        needed=needed,
        default=row.default,
        limit=limit.value if limit else None,
        console_url=_console_url(row.service, code, region),
        command=increase_command(row.service, name, code, needed, region),
        note=row.note,
        source=row.source,
    )


def _ec2_row(rows: Sequence[QuotaRow], instance: Instance, market: str) -> QuotaRow | None:
    family = "standard" if re.match(r"[acdhimrtz]\d", instance.family) else instance.family
    in_market = (row for row in rows if row.service == "ec2" and row.market == market)
    return next((row for row in in_market if family in row.families), None)


def _sagemaker_row(rows: Sequence[QuotaRow], name: str, use: JobKind, market: str) -> QuotaRow | None:
    fitting = [
        row
        for row in rows
        if row.service == "sagemaker"
        and (row.use, row.market) == (use, market)
        and row.instance_type in ("", name)
    ]
    # A row for one type has its code; a pattern does not.
    return max(fitting, key=lambda row: bool(row.instance_type), default=None)


def _console_url(service: str, code: str | None, region: str) -> str:
    domain = next((d for start, d in CONSOLES if region.startswith(start)), "console.aws.amazon.com")
    quota = f"/{code}" if code else ""
    return f"https://{region}.{domain}/servicequotas/home/services/{service}/quotas{quota}"


def increase_command(service: str, name: str, code: str | None, needed: int | None, region: str) -> str:
    """The command that requests a value of a quota, or finds its code if that is unknown.

    Args:
        needed: the value; None if it is unknown.
    """
    if code is None:
        query = f"Quotas[?QuotaName=='{name}'].[QuotaCode,Value]"
        return (
            f"aws service-quotas list-service-quotas --service-code {service} --region {region}"
            f' --query "{query}" --output text'
        )
    return (
        f"aws service-quotas request-service-quota-increase --service-code {service} --quota-code {code}"
        f" --desired-value {needed or 'VALUE'} --region {region}"
    )
