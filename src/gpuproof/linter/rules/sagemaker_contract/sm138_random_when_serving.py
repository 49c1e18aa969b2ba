"""Requests are transformed at random, as training data are: the same input gets another answer each time.

Random crops, flips and colours make training data more diverse. In an endpoint they change what the model is asked,
and the score differs from that of the validation. `timm.data.create_transform(is_training=True)` and
`torchvision.transforms.Random...` are such transforms.

Bad:

    import io
    import torch
    from PIL import Image
    from torchvision import transforms

    prepare = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])  # <-

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        return prepare(Image.open(io.BytesIO(body)).convert("RGB"))[None]

    def predict_fn(image, model):
        with torch.inference_mode():
            return model(image)

Bad: in a class that serves

    import timm
    import torch
    from fastapi import FastAPI, UploadFile
    from PIL import Image

    class Embedder:
        def __init__(self, folder):
            self.net = torch.jit.load(folder + "/model.pt").eval()
            self.transform = timm.data.create_transform(224, is_training=True)  # <-

        @torch.inference_mode()
        def __call__(self, image):
            return self.net(self.transform(image)[None])[0].tolist()

    app = FastAPI()
    embedder = Embedder("/opt/ml/model")

    @app.post("/invocations")
    def invocations(file: UploadFile):
        return embedder(Image.open(file.file).convert("RGB"))

Good:

    import io
    import torch
    from PIL import Image
    from torchvision import transforms

    prepare = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        return prepare(Image.open(io.BytesIO(body)).convert("RGB"))[None]

    def predict_fn(image, model):
        with torch.inference_mode():
            return model(image)

Quiet: the file also trains

    import io
    import torch
    from PIL import Image
    from torchvision import datasets, transforms

    augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    prepare = transforms.Compose([transforms.CenterCrop(224), transforms.ToTensor()])

    def train(folder):
        return datasets.ImageFolder(folder, augment)

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        return prepare(Image.open(io.BytesIO(body)).convert("RGB"))[None]

    def predict_fn(image, model):
        with torch.inference_mode():
            return model(image)

Quiet: the mean over several random crops

    import io
    import torch
    from PIL import Image
    from torchvision import transforms

    crop = transforms.Compose([transforms.RandomCrop(224), transforms.ToTensor()])

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt")

    def input_fn(body, content_type):
        image = Image.open(io.BytesIO(body)).convert("RGB")
        return torch.stack([crop(image) for _ in range(10)])

    def predict_fn(crops, model):
        with torch.inference_mode():
            return model(crops).mean(0)
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_within
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.called import called_functions
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.contract.inference_handlers import is_handler
from gpuproof.linter.knowledge.contract.request_functions import WORDS, request_functions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM138", "random-when-serving", Severity.WARNING, needs=WORDS)

_RANDOM = re.compile(
    r"^torchvision\.transforms\.(v2\.)?(Random(?!Choice$|Order$|Apply$)\w+|ColorJitter|AutoAugment|RandAugment|TrivialAugmentWide)$"
    r"|^albumentations\.(Random\w+|HorizontalFlip|VerticalFlip|Flip|ShiftScaleRotate|ColorJitter|CoarseDropout)$"
    r"|^tensorflow\.image\.random_\w+$"
)
_MEAN = re.compile(r"(^|\.)(mean|median|average|mode)$")
_HANDLED = ("input_fn", "predict_fn", "transform_fn")


@rule.module
def check(module: Module, _: Project) -> Hits:
    starts = [function.node for function in request_functions(module)]
    if is_handler(module):
        starts += [module.functions[name] for name in _HANDLED if name in module.functions]
    if not starts or not module.imports("torch", "torchvision", "timm", "albumentations", "tensorflow"):
        return
    functions: dict[ast.AST, Definition] = {start: Definition(module, start) for start in starts}
    for start in starts:
        functions.update({inner.node: inner for inner in called_functions(module, start)})
    # Several random views of one input, of which the mean is taken, are meant.
    if any(uses(function.module, _MEAN, "call", within=function.node) for function in functions.values()):
        return
    found: set[ast.AST] = set()
    for function in functions.values():
        for call in _random_calls(function):
            if call.node not in found:
                found.add(call.node)
                yield rule.hit(
                    call.span,
                    f"`{call.module.excerpt(call.node, 50)}` changes each request at random: the same input gets another answer each time.",
                    remedy="Use the transforms of validation: a resize and a centre crop, is_training=False.",
                )
                break


def _random_calls(function: Definition) -> Iterator[Call]:
    """Random transforms that a function runs: its own, or in what it calls with the data."""
    module = function.module
    for call in calls_within(all_calls(module), function.node):
        if call.name is not None:
            if _RANDOM.search(call.name):
                yield call
            continue
        made = sources(module, call.node.func)
        for source in made.found if made.complete else ():
            inside = calls_within(all_calls(source.module), source.node)
            yield from (inner for inner in inside if _is_random(inner))


def _is_random(call: Call) -> bool:
    if (call.name or "").startswith("timm.data.") and call.method == "create_transform":
        return call.argument("is_training", 1).flag is True
    return _RANDOM.search(call.name or "") is not None and call.argument("p").number != 0
