"""A step is created, and is not among the steps of the pipeline: it never runs.

SageMaker runs what `Pipeline(steps=[...])` lists, and the steps of its conditions; reading the properties of a step, or
`depends_on`, does not add it. If a step of the pipeline refers to one that is missing, SageMaker rejects the pipeline.
Functions with `@step` are different: the pipeline finds those that a listed one needs.

Bad:

    from sagemaker.workflow.model_step import ModelStep
    from sagemaker.workflow.pipeline import Pipeline
    from sagemaker.workflow.steps import TrainingStep

    train = TrainingStep("Train", step_args=estimator.fit({"train": data}))
    register = ModelStep("Register", step_args=model.register(model_package_group_name="fraud"))
    pipeline = Pipeline("fraud", steps=[train])  # <-

Bad: a listed step depends on it

    from sagemaker.workflow.pipeline import Pipeline
    from sagemaker.workflow.steps import ProcessingStep, TrainingStep

    split = ProcessingStep("Split", step_args=processor.run(code="split.py"))
    train = TrainingStep("Train", step_args=estimator.fit({"train": data}), depends_on=[split])
    pipeline = Pipeline(
        name="fraud",
        steps=[train],  # <-
    )

Good:

    from sagemaker.workflow.model_step import ModelStep
    from sagemaker.workflow.pipeline import Pipeline
    from sagemaker.workflow.steps import TrainingStep

    train = TrainingStep("Train", step_args=estimator.fit({"train": data}))
    register = ModelStep("Register", step_args=model.register(model_package_group_name="fraud"))
    pipeline = Pipeline("fraud", steps=[train, register])

Quiet: a step of a condition

    from sagemaker.workflow.condition_step import ConditionStep
    from sagemaker.workflow.model_step import ModelStep
    from sagemaker.workflow.pipeline import Pipeline
    from sagemaker.workflow.steps import TrainingStep

    train = TrainingStep("Train", step_args=estimator.fit({"train": data}))
    register = ModelStep("Register", step_args=model.register(model_package_group_name="fraud"))
    check = ConditionStep("IsGood", conditions=[is_good], if_steps=[register], else_steps=[])
    steps = [train]
    steps.append(check)
    pipeline = Pipeline("fraud", steps=steps)

Quiet: a second pipeline

    from sagemaker.workflow.pipeline import Pipeline
    from sagemaker.workflow.steps import ProcessingStep, TrainingStep

    train = TrainingStep("Train", step_args=estimator.fit({"train": data}))
    score = ProcessingStep("Score", step_args=processor.run(code="score.py"))
    nightly = Pipeline("score", steps=[score])
    weekly = Pipeline("train", steps=[train])
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("SM133", "step-not-in-pipeline", Severity.ERROR, needs=("sagemaker.workflow",))

_STEPS = frozenset(
    f"{name}Step"
    for name in [
        "Training",
        "Processing",
        "Transform",
        "Tuning",
        "CreateModel",
        "Model",
        "Condition",
        "Callback",
        "Lambda",
        "Fail",
        "QualityCheck",
        "ClarifyCheck",
        "EMR",
        "AutoML",
        "NotebookJob",
    ]
)
_REFERENCES = (
    "depends_on",
    "add_depends_on",
    "JsonGet",
    "Join",
    "print",
    "len",
    "str",
    "repr",
    "type",
    "display",
)
"""Arguments and calls that name a step and do not add it to a pipeline."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    pipelines = calls_to(module, "sagemaker.workflow.pipeline.Pipeline")
    if not pipelines or module.names.has_star:
        return
    listed = [
        steps for pipeline in pipelines if isinstance(steps := pipeline.expression("steps", 3), ast.List)
    ]
    if len(listed) != len(pipelines):
        return
    for step in all_calls(module):
        name = _name_of(module, step)
        if name is None:
            continue
        uses = _uses(module, name)
        if any(not _only_refers(module, use) for use in uses):
            continue
        title = step.argument("name", 0).text
        pipeline = next(
            (steps for steps in listed if module.function_of(steps) is module.function_of(step.node)), None
        )
        if pipeline is None:
            continue
        is_needed = any(_is_in_step(module, use) for use in uses)
        yield rule.hit(
            module.span(pipeline),
            f"The step `{name.id}`{f' ({title})' if title else ''} is not among the steps of the pipeline: "
            + (
                "a step that needs it makes SageMaker reject the pipeline." if is_needed else "it never runs."
            ),
            remedy=f"Add {name.id} to steps=[...], or remove it.",
            severity=rule.severity if is_needed else lowered(rule.severity),
        )


def _name_of(module: Module, step: Call) -> ast.Name | None:
    """The variable that holds a step and nothing else."""
    if step.method not in _STEPS or not (step.name or "").startswith("sagemaker.workflow."):
        return None
    statement = module.parent(step.node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or module.loops_around(statement):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return None
    stores = [
        node for node in module.nodes(ast.Name) if node.id == target.id and isinstance(node.ctx, ast.Store)
    ]
    return target if len(stores) == 1 else None


def _uses(module: Module, name: ast.Name) -> list[ast.Name]:
    return [node for node in module.nodes(ast.Name) if node.id == name.id and isinstance(node.ctx, ast.Load)]


def _only_refers(module: Module, use: ast.Name) -> bool:
    """Whether a use of a step only reads an attribute of it, or names it for another step."""
    if isinstance(module.parent(use), ast.Attribute):
        return True
    for ancestor in module.tree.ancestors(use):
        match ancestor:
            case ast.keyword(arg=name) if name in _REFERENCES:
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _REFERENCES:
                return True
            case ast.Expr(value=ast.Name()):
                return True
            case ast.stmt():
                return False
            case _:
                continue
    return False


def _is_in_step(module: Module, use: ast.Name) -> bool:
    """Whether an argument of another step of a pipeline refers to a step."""
    return any(
        isinstance(ancestor, ast.Call) and Call(ancestor, module).method in _STEPS
        for ancestor in module.tree.ancestors(use)
    )
