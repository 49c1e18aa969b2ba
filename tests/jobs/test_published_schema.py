from __future__ import annotations

import json
from pathlib import Path

from tarmac.jobs import json_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "tarmac.schema.json"


def test_the_published_schema_is_the_one_that_tarmac_prints() -> None:
    assert json.loads(PUBLISHED.read_text()) == json_schema(), "tarmac schema > docs/tarmac.schema.json"
