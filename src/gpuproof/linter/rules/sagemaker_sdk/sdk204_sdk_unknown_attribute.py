"""The object has no such method or attribute in this version of the SageMaker SDK: AttributeError at this line.

Version 3 replaced estimators and predictors with other objects whose methods have other names: `ModelTrainer` has
`train` and no `fit`, and an `Endpoint` has `invoke` and no `predict`. A line after the training fails when the training is
paid for. The attributes of both versions are read from the packages.

Bad: methods of version 2 on objects of version 3

    from sagemaker.serve import ModelBuilder
    from sagemaker.train import ModelTrainer

    trainer = ModelTrainer(training_image="image:1", role="role")
    trainer.fit({"train": "s3://bucket/train"})  # <-
    print(trainer.model_data)  # <-
    builder = ModelBuilder(model=trainer, role_arn="role")
    builder.build()
    endpoint = builder.deploy(endpoint_name="demo")
    endpoint.predict([1.0])  # <-

Bad: and the other direction

    from sagemaker.pytorch import PyTorch

    class Launch:
        def __init__(self):
            self.estimator = PyTorch(
                entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
                instance_count=1, instance_type="ml.g5.xlarge",
            )

        def run(self):
            self.estimator.train()  # <-

Good:

    from sagemaker.serve import ModelBuilder
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import InputData

    trainer = ModelTrainer(training_image="image:1", role="role")
    trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://bucket/train")])
    builder = ModelBuilder(model=trainer, role_arn="role")
    builder.build()
    endpoint = builder.deploy(endpoint_name="demo")
    endpoint.invoke(body=b"[1.0]", content_type="application/json")
    endpoint.delete()

Quiet: an own class with the attribute, and an attribute that the script asks for first

    from sagemaker.train import ModelTrainer

    class Trainer(ModelTrainer):
        def fit(self):
            self.train()

    def start(trainer):
        trainer.fit()

    Trainer(training_image="image:1", role="role").fit()
    trainer = ModelTrainer(training_image="image:1", role="role")
    if hasattr(trainer, "latest_training_job"):
        print(trainer.latest_training_job)

Quiet: AttributeError is handled

    from sagemaker.train import ModelTrainer

    trainer = ModelTrainer(training_image="image:1", role="role")
    try:
        trainer.fit()
    except AttributeError:
        trainer.train()
"""

import ast
import difflib

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import v2, v3
from gpuproof.linter.sdk.calls import sdk_major
from gpuproof.linter.sdk.names import is_guarded
from gpuproof.linter.sdk.objects import SdkObjects, is_probed, sdk_objects
from gpuproof.linter.source.span import Span

rule = Rule("SDK204", "sdk-unknown-attribute", Severity.ERROR, needs=("sagemaker",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    major = sdk_major(module, project)
    if major == 1:
        return
    stored = {node.attr for node in module.nodes(ast.Attribute) if not isinstance(node.ctx, ast.Load)}
    for node in module.nodes(ast.Attribute):
        if node.attr.startswith("_") or node.attr in stored or not isinstance(node.ctx, ast.Load):
            continue
        behind = sdk_objects(module, node.value, major)
        if behind is None or behind.has(node.attr) is not False:
            continue
        if is_guarded(module, node) or is_probed(module, node.attr):
            continue
        version = (v2() if behind.major == 2 else v3()).version
        yield rule.hit(
            _name_span(module, node),
            f"`{behind.name}` of sagemaker {version} has no `{node.attr}`: AttributeError at this line.",
            remedy=_remedy(behind, node.attr),
        )


def _remedy(behind: SdkObjects, attribute: str) -> str:
    if instead := behind.instead(attribute):
        return f"Use {instead}."
    near = difflib.get_close_matches(attribute, behind.names(), 1, 0.75)
    if near:
        return f"Use `.{near[0]}`."
    other = 3 if behind.major == 2 else 2
    return f"See the attributes of {behind.name} in the documentation of sagemaker {behind.major}; those of v{other} differ."


def _name_span(module: Module, node: ast.Attribute) -> Span:
    whole = module.span(node)
    return Span(
        whole.unit, whole.end_line, whole.end_column - len(node.attr), whole.end_line, whole.end_column
    )
