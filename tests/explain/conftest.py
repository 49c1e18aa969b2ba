"""The shipped facts, without refreshed tables of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.tables import Tables
from gpuproof.explain import Context

LOGS = Path(__file__).parent / "logs"
QUIET = Path(__file__).parent / "quiet"


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue(Tables())


@pytest.fixture
def context(catalogue: Catalogue) -> Context:
    """Of a log of which nothing else is known."""
    return Context(catalogue=catalogue)
