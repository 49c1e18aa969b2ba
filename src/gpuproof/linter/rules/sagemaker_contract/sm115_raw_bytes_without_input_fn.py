"""`predict_fn` decodes its data as if it were the request body, but without an `input_fn` it does not get the body.

The default `input_fn` of the PyTorch and scikit-learn containers decodes JSON, CSV and NPY into a tensor or an array
and rejects any other content type, including images. Either the request is rejected with "unsupported content type",
or `io.BytesIO` and `Image.open` fail on a tensor. Hugging Face containers decode requests themselves and are not
reported.

Bad:

    import io
    import torch
    from PIL import Image

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(body, model):
        image = Image.open(io.BytesIO(body))  # <-
        return model(image)

Good:

    import io
    import torch
    from PIL import Image

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        return Image.open(io.BytesIO(body))

    def predict_fn(image, model):
        with torch.inference_mode():
            return model(image)

Quiet: input_fn comes from another module

    import io
    import torch
    from handlers import input_fn

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def predict_fn(body, model):
        return model(io.BytesIO(body))

Quiet: a Hugging Face handler, whose JSON arrives as a dict

    import base64
    import io
    from PIL import Image
    from transformers import pipeline

    def model_fn(model_dir):
        return pipeline("image-classification", model_dir)

    def predict_fn(data, model):
        return model(Image.open(io.BytesIO(base64.b64decode(data["image"]))))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.contract.inference_handlers import defines_name, first_parameter, is_handler
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM115", "raw-bytes-without-input-fn", Severity.ERROR, needs=("predict_fn",))

_OF_BYTES = frozenset(
    {
        "io.BytesIO",
        "BytesIO",
        "PIL.Image.open",
        "json.loads",
        "numpy.frombuffer",
        "cv2.imdecode",
        "base64.b64decode",
        "soundfile.read",
        "librosa.load",
        "pickle.loads",
    }
)
_TEXT_METHODS = frozenset({"decode"})


@rule.module
def check(module: Module, project: Project) -> Hits:
    function = module.functions.get("predict_fn")
    if (
        function is None
        or not is_handler(module)
        or defines_name(module, "input_fn")
        or defines_name(module, "transform_fn")
    ):
        return
    name = first_parameter(function)
    served = {job.framework for job in project.jobs_running(module) if job.kind in ("endpoint", "transform")}
    if (
        name is None
        or served - {"pytorch", "sklearn"}
        or _is_hugging_face(module)
        or "model_fn" not in module.functions
    ):
        return
    calls = calls_within(all_calls(module), function)
    if any(call.method in ("isinstance", "type", "hasattr") for call in calls):
        return
    for call in calls:
        if not _reads_bytes(module, call, name):
            continue
        yield rule.hit(
            call.span,
            f"`predict_fn` decodes `{name}` as the request body, but there is no input_fn: the default one converts "
            "JSON, CSV or NPY to a tensor or array and rejects everything else.",
            remedy="Move the decoding to def input_fn(body, content_type), which receives the bytes.",
        )
        return


def _reads_bytes(module: Module, call: Call, name: str) -> bool:
    if call.method in _TEXT_METHODS and isinstance(call.receiver, ast.Name):
        return _is_parameter(module, call.receiver, name)
    if call.name not in _OF_BYTES or not call.node.args:
        return False
    return _is_parameter(module, call.node.args[0], name)


def _is_parameter(module: Module, node: ast.expr, name: str) -> bool:
    if not isinstance(node, ast.Name) or node.id != name:
        return False
    bindings = module.reaching(node)
    return len(bindings) == 1 and bindings[0].kind == "parameter"


def _is_hugging_face(module: Module) -> bool:
    return module.imports(
        "transformers", "diffusers", "sentence_transformers", "sagemaker_huggingface_inference_toolkit"
    )
