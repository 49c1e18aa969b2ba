"""A pipeline reads an output that its step does not have.

`step.properties.ProcessingOutputConfig.Outputs["train"]` is the output with `output_name="train"`; outputs without a name
are called `output-1`, `output-2` and so on. The SDK accepts every name, and SageMaker rejects the pipeline, or the next
step fails. The same is true of the `output_name` of a `PropertyFile`.

Bad:

    from sagemaker.inputs import TrainingInput
    from sagemaker.processing import ProcessingOutput, ScriptProcessor
    from sagemaker.workflow.steps import ProcessingStep

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    split = ProcessingStep(
        "Split",
        step_args=processor.run(
            code="split.py", outputs=[ProcessingOutput(output_name="train", source="/opt/ml/processing/train")]
        ),
    )
    data = TrainingInput(
        split.properties.ProcessingOutputConfig.Outputs["training"].S3Output.S3Uri  # <-
    )

Bad: the file of a condition

    from sagemaker.processing import ProcessingOutput, ScriptProcessor
    from sagemaker.workflow.properties import PropertyFile
    from sagemaker.workflow.steps import ProcessingStep

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    report = PropertyFile(name="Report", output_name="evaluation", path="evaluation.json")  # <-
    evaluate = ProcessingStep(
        name="Evaluate",
        processor=processor,
        code="evaluate.py",
        outputs=[ProcessingOutput(output_name="metrics", source="/opt/ml/processing/evaluation")],
        property_files=[report],
    )

Good:

    from sagemaker.inputs import TrainingInput
    from sagemaker.processing import ProcessingOutput, ScriptProcessor
    from sagemaker.workflow.steps import ProcessingStep

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    split = ProcessingStep(
        "Split",
        step_args=processor.run(
            code="split.py", outputs=[ProcessingOutput(output_name="train", source="/opt/ml/processing/train")]
        ),
    )
    data = TrainingInput(split.properties.ProcessingOutputConfig.Outputs["train"].S3Output.S3Uri)

Quiet: an output without a name

    from sagemaker.inputs import TrainingInput
    from sagemaker.processing import ProcessingOutput, ScriptProcessor
    from sagemaker.workflow.steps import ProcessingStep

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    arguments = processor.run(code="split.py", outputs=[ProcessingOutput(source="/opt/ml/processing/train")])
    split = ProcessingStep("Split", step_args=arguments)
    data = TrainingInput(split.properties.ProcessingOutputConfig.Outputs["output-1"].S3Output.S3Uri)

Quiet: outputs that are made elsewhere

    from sagemaker.processing import ScriptProcessor
    from sagemaker.workflow.steps import ProcessingStep

    def evaluation(processor: ScriptProcessor, outputs: list):
        step = ProcessingStep("Evaluate", step_args=processor.run(code="evaluate.py", outputs=outputs))
        return step.properties.ProcessingOutputConfig.Outputs["report"].S3Output.S3Uri
"""

import ast
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule
from gpuproof.linter.source.span import Span

rule = Rule("SM132", "step-output-unknown", Severity.ERROR, needs=("ProcessingOutputConfig", "PropertyFile"))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    for node in module.nodes(ast.Subscript):
        step = _step_of(module, node)
        key = evaluate(module, node.slice)
        names = _outputs(step) if step is not None and key.is_known and key.text is not None else None
        if step is not None and names is not None and key.text not in names:
            yield _hit(module.span(node), f'Outputs["{key.text}"]', str(key.text), step, names)
    for step in calls_named(module, "ProcessingStep"):
        names = _outputs(step)
        files = module.origin(step.expression("property_files"))
        if names is None or not isinstance(files, (ast.List, ast.Tuple)):
            continue
        for file in (origin_call(module, item) for item in files.elts):
            name = file.argument("output_name", 1) if file is not None else None
            if file is not None and name is not None and name.is_known and name.text not in (None, *names):
                yield _hit(file.span, f'output_name="{name.text}"', str(name.text), step, names)


def _hit(span: Span, written: str, name: str, step: Call, names: list[str]) -> Hit:
    title = step.argument("name", 0).text
    near = get_close_matches(name, names, 1, 0.5) or (names if len(names) == 1 else [])
    had = ", ".join(f"`{output}`" for output in names) or "none"
    return rule.hit(
        span,
        f"`{written}` does not exist: the outputs of {f'step {title}' if title else 'the step'} are {had}.",
        remedy=f'Use "{near[0]}".' if near else "Use one of these names, or pass output_name= to the output.",
    )


def _step_of(module: Module, node: ast.Subscript) -> Call | None:
    """The `ProcessingStep` whose `properties.ProcessingOutputConfig.Outputs` a subscript reads."""
    match node.value:
        case ast.Attribute(
            attr="Outputs",
            value=ast.Attribute(
                attr="ProcessingOutputConfig", value=ast.Attribute(attr="properties", value=holder)
            ),
        ):
            found = sources(module, holder)
        case _:
            return None
    made = found.found[0] if len(found.found) == 1 and found.complete else None
    if made is None or not isinstance(made.node, ast.Call):
        return None
    call = Call(made.node, made.module)
    return call if call.method == "ProcessingStep" and not call.is_open else None


def _outputs(step: Call) -> list[str] | None:
    """The names of a step's outputs; None if one of them is unknown."""
    module, run = step.module, step
    arguments = step.expression("step_args", 1)
    if arguments is not None:
        made = origin_call(module, arguments)
        if made is None or made.method != "run" or made.is_open:
            return None
        run = made
    written = module.origin(run.expression("outputs"))
    if not isinstance(written, (ast.List, ast.Tuple)) or not written.elts:
        return None
    names: list[str] = []
    for position, item in enumerate(written.elts, 1):
        output = origin_call(module, item)
        name = output.argument("output_name", 2) if output is not None else None
        if output is None or name is None or not output.method.endswith("Output"):
            return None
        if name.is_unset:
            names.append(f"output-{position}")
        elif name.is_known and name.text is not None:
            names.append(name.text)
        else:
            return None
    return names
