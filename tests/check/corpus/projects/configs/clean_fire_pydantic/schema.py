from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field


class Loader(BaseModel):
    model_config = ConfigDict(extra="forbid")
    batch_size: int = Field(64, gt=0)
    num_workers: int = Field(0, ge=0)


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lr: float = 1e-3
    epochs: int = 10
    device: Literal["cpu", "cuda"] = "cuda"
    loader: Loader = Loader()

    @classmethod
    def read(cls, path):
        return cls.model_validate(yaml.safe_load(Path(path).read_text()))
