"""Batch transform jobs for tests of the command line: a model that answers text, and what exists of it."""

from __future__ import annotations

from pathlib import Path

from support.archives import archive
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE

HANDLER = """
import time

def model_fn(model_dir):
    return "m"

def transform_fn(model, body, content_type, accept):
    text = body if isinstance(body, str) else body.decode()
    print("got", content_type, flush=True)
    if "fail" in text:
        raise RuntimeError("a bug")
    if "wait" in text:
        time.sleep(100)
    return "<%s>" % text.strip(), "text/csv"
"""
TYPE = ("--instance-type", "ml.g5.xlarge")


def words(account: Account, data: str) -> list[str]:
    account.put("in/x.csv", data)
    return [model_data(account), "--image", SERVING_IMAGE, *places(account), *TYPE]


def write_model(folder: Path, handler: str = HANDLER) -> None:
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "inference.py").write_text(handler)


def model_data(account: Account) -> str:
    return account.put(f"{account.prefix}/model.tar.gz", archive(**{"code/inference.py": HANDLER.encode()}))


def places(account: Account) -> list[str]:
    return ["--input", f"s3://{account.bucket}/in/", "--output", f"s3://{account.bucket}/out"]


def models(account: Account) -> list[str]:
    """The models whose data or name is the test's."""
    client = account.client("sagemaker")
    names = [item["ModelName"] for item in client.list_models(MaxResults=100)["Models"]]
    found = [client.describe_model(ModelName=name) for name in names]
    return [
        model["ModelName"]
        for model in found
        if account.bucket in model["PrimaryContainer"].get("ModelDataUrl", "")
    ]
