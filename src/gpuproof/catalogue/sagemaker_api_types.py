"""The `ml.*` types that each SageMaker API accepts, from the service model of the installed botocore.

APIs still accept retired types (ml.p2, ml.p3): acceptance is not availability. The model's file is read directly, 25 ms
for 2.6 MB, because importing botocore takes longer.
"""

import gzip
import importlib.util
import json
from functools import cache
from pathlib import Path

from gpuproof.catalogue.model import JobKind

SHAPES: dict[JobKind, str] = {
    "training": "TrainingInstanceType",
    "processing": "ProcessingInstanceType",
    "endpoint": "ProductionVariantInstanceType",
    "transform": "TransformInstanceType",
    "notebook": "InstanceType",
    "studio": "AppInstanceType",
    "cluster": "ClusterInstanceType",
}
"""The enumeration of instance types in the service model, by job kind."""


@cache
def accepted_types() -> dict[JobKind, frozenset[str]]:
    """Types by job kind; empty if botocore or its model is missing."""
    path = service_model()
    if path is None:
        return {}
    shapes = json.loads(_text(path)).get("shapes", {})
    found: dict[JobKind, frozenset[str]] = {}
    for kind, shape in SHAPES.items():
        if types := shapes.get(shape, {}).get("enum"):
            found[kind] = frozenset(types)
    return found


def service_model() -> Path | None:
    """Path of the newest SageMaker service model of the installed botocore; None if there is none."""
    spec = importlib.util.find_spec("botocore")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if files := sorted(Path(folder, "data", "sagemaker").glob("*/service-2.json*")):
            return files[-1]
    return None


def _text(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
