"""The base class of the mappings inside a job."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A mapping that rejects unknown keys."""

    # Deferred: importing this module builds no validators; using a model builds only its own.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
