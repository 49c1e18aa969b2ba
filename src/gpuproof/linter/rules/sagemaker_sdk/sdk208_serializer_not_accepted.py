"""The predictor sends NumPy arrays, and the endpoint's `input_fn` accepts other content types only.

`deploy()` of a PyTorch or Scikit-learn model returns a predictor with `NumpySerializer`: requests have the content type
`application/x-npy`. An `input_fn` that raises an exception for everything but `application/json` answers each of them
with an error, while the endpoint is billed.
Source: https://sagemaker.readthedocs.io/en/v2/frameworks/pytorch/sagemaker.pytorch.html, `PyTorchPredictor`, 2026-11-29.

Bad:

    # file: deploy.py
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://b/m.tar.gz", role="r", entry_point="inference.py", framework_version="2.3", py_version="py311"
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    print(predictor.predict([[1.0, 2.0]]))  # <-
    predictor.delete_endpoint()
    # file: inference.py
    import json
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        if content_type == "application/json":
            return torch.tensor(json.loads(body))
        raise ValueError(f"{content_type} is not supported")

Good:

    # file: deploy.py
    from sagemaker.deserializers import JSONDeserializer
    from sagemaker.pytorch import PyTorchModel
    from sagemaker.serializers import JSONSerializer

    model = PyTorchModel(
        model_data="s3://b/m.tar.gz", role="r", entry_point="inference.py", framework_version="2.3", py_version="py311"
    )
    predictor = model.deploy(
        initial_instance_count=1, instance_type="ml.g5.xlarge", serializer=JSONSerializer(),
        deserializer=JSONDeserializer(),
    )
    print(predictor.predict([[1.0, 2.0]]))
    predictor.delete_endpoint()
    # file: inference.py
    import json
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        if content_type == "application/json":
            return torch.tensor(json.loads(body))
        raise ValueError(f"{content_type} is not supported")

Quiet: the serializer is set later

    # file: deploy.py
    from sagemaker.pytorch import PyTorchModel
    from sagemaker.serializers import JSONSerializer

    model = PyTorchModel(
        model_data="s3://b/m.tar.gz", role="r", entry_point="inference.py", framework_version="2.3", py_version="py311"
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    predictor.serializer = JSONSerializer()
    print(predictor.predict([[1.0, 2.0]]))
    predictor.delete_endpoint()
    # file: inference.py
    import json
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        if content_type != "application/json":
            raise ValueError(content_type)
        return torch.tensor(json.loads(body))

Quiet: other types are read as well

    # file: deploy.py
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://b/m.tar.gz", role="r", entry_point="inference.py", framework_version="2.3", py_version="py311"
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    print(predictor.predict([[1.0, 2.0]]))
    predictor.delete_endpoint()
    # file: inference.py
    import io
    import json
    import numpy as np
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        if content_type == "application/json":
            return torch.tensor(json.loads(body))
        return torch.from_numpy(np.load(io.BytesIO(body)))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.inference_handlers import positional_parameters
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SDK208", "serializer-not-accepted", Severity.ERROR, when="link")

_SENT = "application/x-npy"


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    module, deployed = job.module, job.call
    if job.kind != "endpoint" or job.source != "sagemaker-v2" or job.framework not in ("pytorch", "sklearn"):
        return
    if module is None or deployed is None or job.script is None or job.model is None:
        return
    function = job.script.functions.get("input_fn")
    if function is None or function.decorator_list:
        return
    if not job.argument("serializer").is_absent or not job.model.argument("predictor_cls").is_absent:
        return
    accepted = _accepted(function)
    if not accepted or _SENT in accepted or _sets_serializer(module):
        return
    for call in calls_named(module, "predict"):
        made = origin_call(module, call.receiver) if call.receiver is not None else None
        if made is None or made.node is not deployed.node or len(call.node.args) != 1 or call.node.keywords:
            continue
        names = " and ".join(f"`{name}`" for name in sorted(accepted))
        yield rule.hit(
            call.span,
            f"The predictor sends `{_SENT}`, and `input_fn` of {job.script_title} raises an exception for everything but {names}.",
            remedy="Pass serializer=JSONSerializer() to deploy()."
            if accepted == {"application/json"}
            else "Pass a serializer with one of these types to deploy().",
        )
        return


def _sets_serializer(module: Module) -> bool:
    return any(
        node.attr in ("serializer", "content_type") and isinstance(node.ctx, ast.Store)
        for node in module.nodes(ast.Attribute)
    )


def _accepted(function: FunctionNode) -> set[str] | None:
    """The content types that `input_fn` accepts, if it raises an exception for all others; None in doubt."""
    parameters = positional_parameters(function)
    last = function.body[-1]
    if len(parameters) < 2:
        return None
    name, found = parameters[1].arg, set[str]()
    tests = [node for node in ast.walk(function) if isinstance(node, ast.If) and _mentions(node.test, name)]
    for test in tests:
        match test.test:
            case ast.Compare(
                left=ast.Name(id=left),
                ops=[ast.Eq() | ast.NotEq() as operator],
                comparators=[ast.Constant(value=str(text))],
            ) if left == name:
                found.add(text)
                if isinstance(operator, ast.NotEq) and not isinstance(test.body[-1], ast.Raise):
                    return None
                refuses = isinstance(operator, ast.NotEq) or isinstance(last, ast.Raise) or _refuses(test)
                if not refuses:
                    return None
            case _:
                return None
    return found or None


def _refuses(test: ast.If) -> bool:
    """Whether the last `else` of a chain of conditions raises an exception."""
    rest = test.orelse
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        rest = rest[0].orelse
    return bool(rest) and isinstance(rest[-1], ast.Raise)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))
