"""Reading the CSV tables that are shipped."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gpuproof.util.csv_table import read_rows


def test_comments_at_the_top_are_skipped_and_others_are_data(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('# from: somewhere\n# as of: today\nname,value\na,"1\n#2"\n#b,3\n')
    assert read_rows(path) == [{"name": "a", "value": "1\n#2"}, {"name": "#b", "value": "3"}]


def test_a_quote_that_is_never_closed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('name,value\na,"1\n')
    with pytest.raises(csv.Error):
        read_rows(path)
