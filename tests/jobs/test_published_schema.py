from __future__ import annotations

import json
from pathlib import Path

from gpuproof.jobs import json_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "gpuproof.schema.json"


def test_the_published_schema_is_the_one_that_gpuproof_prints() -> None:
    assert json.loads(PUBLISHED.read_text()) == json_schema(), "gpuproof schema > docs/gpuproof.schema.json"
