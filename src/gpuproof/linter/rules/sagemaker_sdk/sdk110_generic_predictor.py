"""`predictor_cls=Predictor` drops the framework's serializers: requests are sent as bytes, and responses come back as bytes.

Without it, `PyTorchModel.deploy` returns a PyTorchPredictor, which sends and reads NumPy arrays. The rule is strict, because
serializers may be set later.

Bad:

    from sagemaker.predictor import Predictor
    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://b/m.tar.gz", role="r", entry_point="inference.py", predictor_cls=Predictor)  # <-

Good:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://b/m.tar.gz",
        role="r",
        entry_point="inference.py",
        framework_version="2.6",
        py_version="py312",
    )

Quiet: serializers are passed at the deployment

    from sagemaker.predictor import Predictor
    from sagemaker.pytorch import PyTorchModel
    from sagemaker.serializers import JSONSerializer

    model = PyTorchModel(model_data="s3://b/m.tar.gz", role="r", predictor_cls=Predictor)
    model.deploy(1, "ml.g4dn.xlarge", serializer=JSONSerializer())
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SDK110", "generic-predictor", Severity.WARNING, when="strict", needs=("predictor_cls",))

_MODELS = ("sagemaker.pytorch.*", "sagemaker.tensorflow.*", "sagemaker.huggingface.*", "sagemaker.sklearn.*")
_GENERIC = ("sagemaker.predictor.Predictor", "sagemaker.Predictor")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if any("serializer" in call.keywords for call in calls_named(module, "deploy")):
        return
    for call in calls_to(module, *_MODELS):
        given = call.expression("predictor_cls")
        if given is not None and module.qualified(given) in _GENERIC:
            yield rule.hit(
                module.span(given),
                f"`predictor_cls=Predictor` sends and returns bytes, unlike the predictor of {call.method}.",
                remedy="Remove it, or pass serializer= and deserializer= to deploy().",
            )
