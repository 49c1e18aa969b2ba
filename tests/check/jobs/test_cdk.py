"""Jobs and resources of CDK programs in Python and TypeScript."""

from pathlib import Path

import pytest

from gpuproof.linter.jobs.cdk import typescript
from gpuproof.linter.source.span import Unit
from support.check_helpers import check_here, write_files


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(tmp_path: Path, name: str, text: str, *select: str) -> list[tuple[str, int]]:
    write_files(tmp_path, {name: text})
    hits = check_here(select=select or ("IN", "FW")).hits
    return [(hit.code, hit.finding.location.line or 0) for hit in hits if hit.finding.location]


CPU_IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"
)


def test_endpoint_with_a_cpu_image_in_python(tmp_path: Path) -> None:
    stack = f"""
        from aws_cdk import Stack, aws_sagemaker as sagemaker

        class Serving(Stack):
            def __init__(self, scope, id):
                super().__init__(scope, id)
                container = sagemaker.CfnModel.ContainerDefinitionProperty(
                    image="{CPU_IMAGE}"
                )
                model = sagemaker.CfnModel(self, "M", execution_role_arn="r", primary_container=container)
                variant = {{
                    "variantName": "a", "modelName": model.attr_model_name,
                    "initialInstanceCount": 1, "instanceType": "ml.g5.xlarge",
                }}
                sagemaker.CfnEndpointConfig(self, "C", production_variants=[variant])
    """
    assert ("FW103", 8) in found(tmp_path, "stack.py", stack)


def test_endpoint_with_a_cpu_image_in_typescript(tmp_path: Path) -> None:
    stack = """
        import {{ Stack, StackProps, aws_sagemaker as sm }} from 'aws-cdk-lib';

        const REGISTRY = '763104351884.dkr.ecr.us-east-1.amazonaws.com';
        export class Serving extends Stack {{
          constructor(scope: Construct, id: string, props?: StackProps) {{
            super(scope, id, props);
            const model = new sm.CfnModel(this, 'M', {{
              executionRoleArn: role.roleArn,
              primaryContainer: {{ image: `${{REGISTRY}}/{image}` }},
            }});
            new sm.CfnEndpointConfig(this, 'C', {{
              productionVariants: [{{
                variantName: 'a', modelName: model.attrModelName, initialInstanceCount: 1,
                instanceType: props?.type ?? 'ml.g5.xlarge',
              }}, {{ variantName: 'b', modelName: 'm', instanceType: 'g5.xlarge' }}],
            }});
          }}
        }}
    """.format(image=CPU_IMAGE.partition("/")[2])
    assert found(tmp_path, "stack.ts", stack) == [("FW103", 10), ("IN102", 16)]


@pytest.mark.parametrize(
    "expression",
    [
        "ec2.InstanceType('g5.3xlarge')",
        "ec2.InstanceType.of(ec2.InstanceClass.G5, ec2.InstanceSize.XLARGE3)",
        "SIZE",
    ],
)
def test_instance_types_in_both_languages(tmp_path: Path, expression: str) -> None:
    python = f"""
        import aws_cdk as cdk
        from aws_cdk import aws_ec2 as ec2

        SIZE = ec2.InstanceType("g5.3xlarge")
        ec2.Instance(cdk.Stack(), "Host", vpc=None, instance_type={expression}, machine_image=None)
    """
    assert [code for code, _ in found(tmp_path, "app.py", python)] == ["IN101"]
    (tmp_path / "app.py").unlink()
    typescript_ = f"""
        import * as ec2 from 'aws-cdk-lib/aws-ec2';
        const SIZE = new ec2.InstanceType('g5.3xlarge');
        new ec2.Instance(this, 'Host', {{ vpc, instanceType: {expression.replace("ec2.InstanceType('", "new ec2.InstanceType('")} }});
    """
    assert found(tmp_path, "app.ts", typescript_) == [("IN101", 4)]


def test_a_task_of_step_functions_writes_the_prefix_itself(tmp_path: Path) -> None:
    stack = """
        import aws_cdk as cdk
        from aws_cdk import aws_ec2 as ec2, aws_stepfunctions_tasks as tasks

        def train(scope, name, size):
            return tasks.SageMakerCreateTrainingJob(
                scope, name, training_job_name=name,
                resource_config=tasks.ResourceConfig(instance_count=1, instance_type=ec2.InstanceType(size)),
            )

        stack = cdk.Stack()
        tasks.SageMakerCreateTrainingJob(
            stack, "A", training_job_name="a",
            resource_config=tasks.ResourceConfig(instance_count=1, instance_type=ec2.InstanceType("g5.xlarge")),
        )
        tasks.SageMakerCreateTrainingJob(
            stack, "B", training_job_name="b",
            resource_config=tasks.ResourceConfig(instance_count=1, instance_type=ec2.InstanceType("ml.g5.xlarge")),
        )
    """
    assert found(tmp_path, "stack.py", stack) == [("IN102", 18)]


@pytest.mark.parametrize(
    "text",
    [
        "new ec2.Instance(this, 'x', {",
        "const a = `${b`; new ec2.Instance(this, {}, ]",
        "new ec2.Instance(this, 'x', { instanceType: (() => { return 1; })(), ...rest, [key]: 1 })",
        "const a = b; const b = a; new ec2.Instance(this, 'x', { instanceType: a })",
        "new ec2.Instance(" * 300,
        "new ec2.Instance(this, 'x', { a: [b; c) })",
        "".join(f"const a{i} = `${{a{i + 1}}}${{a{i + 1}}}`;" for i in range(60))
        + "new ec2.Instance(this, a0, { x: a0 })",
        "class X<T extends ec2.Instance> { f(a: Map<string, number>) { if (a < b && c > d) {} } }",
    ],
)
def test_what_the_tokenizer_does_not_understand(text: str) -> None:
    unit = Unit("a.ts", f"import * as ec2 from 'aws-cdk-lib/aws-ec2';\n{text}\n", "typescript")
    for construct in typescript.constructs(unit):
        assert construct.properties.at("InstanceType").text is None


@pytest.mark.parametrize(("asked", "codes"), [("", ["DK101"]), (", gpu=1", []), (", **more", [])])
def test_a_container_of_batch_that_asks_for_no_gpu(tmp_path: Path, asked: str, codes: list[str]) -> None:
    stack = f"""
        from aws_cdk import Stack, aws_batch as batch, aws_ecs as ecs

        class Training(Stack):
            def __init__(self, scope, id, more):
                super().__init__(scope, id)
                batch.EcsEc2ContainerDefinition(
                    self, "C", image=ecs.ContainerImage.from_registry("pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime"),
                    cpu=4, command=["python", "train.py"]{asked},
                )
    """
    write_files(tmp_path, {"train.py": "import torch\nprint(torch.nn.Linear(8, 1).cuda())\n"})
    assert [code for code, _ in found(tmp_path, "app.py", stack, "DK101")] == codes
