"""A file that was just downloaded is unpickled: `pickle`, `joblib` and `torch.load` without `weights_only=True` run what it contains.

Anyone who can write to the bucket or the site can run code with the job's role. The rule is strict; ruff (S301) and Bandit report
every use of pickle, this rule those of files that the same function downloads.

Bad:

    import pickle

    import boto3

    def load():
        boto3.client("s3").download_file("bucket", "model.pkl", "/tmp/model.pkl")
        with open("/tmp/model.pkl", "rb") as file:
            return pickle.load(file)  # <-

Bad:

    import torch

    def load(url):
        torch.hub.download_url_to_file(url, "weights.pt")
        return torch.load("weights.pt", weights_only=False)  # <-

Good:

    import torch

    def load(url):
        torch.hub.download_url_to_file(url, "weights.pt")
        return torch.load("weights.pt", weights_only=True, map_location="cpu")

Quiet: a file of the job's own

    import pickle

    def load():
        with open("/opt/ml/model/model.pkl", "rb") as file:
            return pickle.load(file)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "SE108", "pickle-from-network", Severity.NOTE, when="strict", needs=("pickle", "joblib", "torch.load")
)

_LOADS = ("pickle.load", "pickle.loads", "joblib.load", "torch.load", "cloudpickle.load", "dill.load")
_DOWNLOADS = (
    "download_file",
    "download_fileobj",
    "urlretrieve",
    "download_url_to_file",
    "get_object",
    "urlopen",
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    downloads = calls_named(module, *_DOWNLOADS)
    for call in calls_to(module, *_LOADS) if downloads else ():
        if (
            call.method == "load"
            and call.name == "torch.load"
            and call.argument("weights_only").flag is not False
        ):
            continue  # True is the default since PyTorch 2.6
        function = module.function_of(call.node)
        around: ast.AST = function or module.tree.root
        if calls_within(downloads, around):
            yield rule.hit(
                call.span,
                f"`{module.text(call.node.func)}` runs what the downloaded file contains.",
                remedy="Load weights only: safetensors, or torch.load(..., weights_only=True).",
            )
