"""The call fails because a required argument is missing.

Some arguments have the default None but are required: `deploy(initial_instance_count=1)` raises ValueError after the
model was created, because it has neither an instance type nor a serverless configuration. Framework versions are
checked by FW110.

Bad:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1)  # <-

Bad:

    from sagemaker.transformer import Transformer

    Transformer(model_name="model", instance_count=1)  # <-

Good:

    from sagemaker.pytorch import PyTorchModel
    from sagemaker.transformer import Transformer

    model = PyTorchModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py",
        framework_version="2.3", py_version="py311",
    )
    model.deploy(1, "ml.g5.xlarge")
    Transformer(model_name="model", instance_count=1, instance_type="ml.g5.xlarge")
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt", map_location="cuda")

Quiet: a serverless endpoint has no instance, and the content of **options is unknown

    from sagemaker.pytorch import PyTorchModel
    from sagemaker.serverless import ServerlessInferenceConfig
    from settings import options

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(serverless_inference_config=ServerlessInferenceConfig())
    model.deploy(initial_instance_count=1, **options)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import Signature, v1_parameter, v2_needs
from gpuproof.linter.sdk.calls import given_parameters, sdk_major, sdk_path, sdk_signature

rule = Rule("SDK104", "missing-required-argument", Severity.ERROR, needs=("sagemaker",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    major = sdk_major(module, project)
    for call in all_calls(module):
        path = sdk_path(call)
        signature = sdk_signature(path, major) if path else None
        if path is None or signature is None or call.is_open:
            continue
        missing = _missing(call, path, signature)
        if missing:
            yield rule.hit(
                call.span,
                f"`{call.method}` requires {' and '.join(f'`{name}`' for name in missing)}: "
                f"{'the call raises TypeError' if missing[0] in signature.required else 'the SDK raises ValueError'}.",
                remedy=f"Pass {', '.join(f'{name}=...' for name in missing)}.",
                evidence=(signature.path,),
            )


def _missing(call: Call, path: str, signature: Signature) -> list[str]:
    written = given_parameters(call, signature)
    renamed = {change.new for word in written if (change := v1_parameter(path, word))}
    missing = [name for name in signature.required if name not in written | renamed]
    for need in v2_needs(path):
        if any("version" in name for name in need.needs) or _has(
            call, signature, (*need.needs, *need.unless)
        ):
            continue
        missing += [name for name in need.needs if name not in missing][:1]
    return missing


def _has(call: Call, signature: Signature, names: tuple[str, ...]) -> bool:
    """Whether one of these arguments is passed and not None."""
    positions = {name: position for position, name in enumerate(signature.positional)}
    for name in names:
        value = call.argument(name, positions.get(name))
        if not value.is_absent and not (value.is_known and value.value is None):
            return True
    return False
