"""The facts about AWS that the code assumes and no account has confirmed, and what must hold for a recorded value of each.

`facts.csv` is the list. The steps of the acceptance run name the facts that they confirm; docs/limits.md lists the others.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.agent.ec2_host.container import image_pull
from gpuproof.catalogue import Catalogue
from gpuproof.util.versions import version_key

FILE = Path(__file__).with_name("facts.csv")
NOT_IN_THE_HOUR = "not in the hour"
"""The area of facts that no step confirms."""

_CUDA = re.compile(r"-cu(\d+)")


class Fact(NamedTuple):
    """One assumption about AWS.

    Attributes:
        id: names it in steps and in recordings.
        area: a part of GPUproof, or `NOT_IN_THE_HOUR`.
        assumption: what the code assumes.
        if_wrong: what happens otherwise.
        source: where AWS or NVIDIA describe it.
    """

    id: str
    area: str
    assumption: str
    if_wrong: str
    source: str


@functools.cache
def facts() -> Mapping[str, Fact]:
    """All facts by their ids, in the order of the file."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return {row["id"]: Fact(**row) for row in csv.DictReader(file)}


def problems(values: Mapping[str, Any]) -> list[str]:
    """Where recorded values contradict the code's tables; empty if they agree.

    Args:
        values: a value for each recorded fact; None where the account has none, such as on the emulator.
    """
    found = [f"{name}: there is no such fact" for name in values if name not in facts()]
    found += [
        f"{name}: it is not so: {facts()[name].assumption}"
        for name, value in values.items()
        if value is False
    ]
    for name, check in _CHECKS.items():
        value = values.get(name)
        if value is not None and (problem := check(value)) is not None:
            found.append(f"{name}: {problem}")
    return found


def _quota_names(quotas: Any) -> str | None:
    known = {quota.code: quota.name for quota in Catalogue.load().tables.quotas}
    wrong = [quota for quota in quotas if known.get(quota["code"], quota["name"]) != quota["name"]]
    return f"other names in catalogue/data/quotas.csv: {wrong}" if wrong else None


def _driver_for_cuda(value: Any) -> str | None:
    """The driver runs binaries of this CUDA, or the image has a compatibility library that is newer."""
    driver, cuda = value.get("driver"), value.get("cuda")
    floor = Catalogue.load().driver_floor(cuda) if cuda else None
    if not driver or floor is None:
        return None
    newest = max([driver, *value.get("compat", ())], key=version_key)
    if version_key(newest) >= version_key(floor.minimum):
        return None
    return f"CUDA {cuda} needs the driver {floor.minimum}, and the host has {driver}: choose another default"


def _default_image(tag: Any) -> str | None:
    tags = {image.tag for image in Catalogue.load().tables.images}
    return None if tag in tags else f"catalogue/data/images.csv has no {tag}"


def _host_image(value: Any) -> str | None:
    """The driver's branch is that of the host image's row."""
    rows = Catalogue.load().tables.host_amis
    row = next((row for row in rows if row.version and row.version == value.get("host_image")), None)
    driver = value.get("driver")
    if row is None or not driver or version_key(driver)[0] == row.driver:
        return None
    return f"host_amis.csv has the driver {row.driver} for {row.version}, and the host {driver}"


def _python(version: Any) -> str | None:
    return (
        None if version_key(version) >= (3, 9) else f"the agent needs Python 3.9, and the host has {version}"
    )


def _start(seconds: Any) -> str | None:
    return (
        None
        if seconds < 900
        else f"the first report came after {seconds:.0f} s, later than its limit of 900 s"
    )


def _refusal(text: Any) -> str | None:
    known = image_pull._is_refusal(text) or any(word in text for word in image_pull._FINAL)
    return None if known else f"agent/ec2_host/container/image_pull.py does not know {text!r}"


def _judged(value: Any) -> str | None:
    return None if value in ("processes", "device") else f"unknown evidence {value!r}"


_CHECKS: Mapping[str, Callable[[Any], str | None]] = {
    "quota-names": _quota_names,
    "ec2-driver": _driver_for_cuda,
    "ec2-agent-python": _python,
    "ec2-processes": _judged,
    "ec2-start-time": _start,
    "ec2-refused-pull": _refusal,
    "sagemaker-default-image": _default_image,
    "sagemaker-training-driver": _driver_for_cuda,
    "sagemaker-processes": _judged,
    "endpoint-driver": _host_image,
    "transform-driver": _host_image,
}


def cuda_of_tag(tag: str) -> str | None:
    """The CUDA version in an image's tag, such as `cu129`."""
    found = _CUDA.search(tag)
    return None if found is None else f"cu{found[1]}"
