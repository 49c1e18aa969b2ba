"""Whole launchers as people write them, against the rules about the SageMaker SDK and boto3."""

from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.project import Target
from gpuproof.linter.registry import Selection, all_rules
from gpuproof.linter.rule import Hit

FAMILY = tuple(rule.code for rule in all_rules() if rule.code.startswith("SDK"))

SCRIPT_MODE = """
import boto3
import sagemaker
from sagemaker import get_execution_role, image_uris
from sagemaker.inputs import TrainingInput
from sagemaker.pytorch import PyTorch, PyTorchModel
from sagemaker.serializers import JSONSerializer
from sagemaker.deserializers import JSONDeserializer
from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

session = sagemaker.Session(boto_session=boto3.Session(region_name="us-east-1"))
role = get_execution_role()
bucket = session.default_bucket()
inputs = session.upload_data(path="data", bucket=bucket, key_prefix="mnist")
estimator = PyTorch(
    entry_point="train.py", source_dir="src", role=role, framework_version="2.3", py_version="py311",
    instance_count=2, instance_type="ml.g5.xlarge", volume_size=100, max_run=3600, max_wait=7200,
    use_spot_instances=True, checkpoint_s3_uri="s3://bucket/checkpoints", hyperparameters={"epochs": 3},
    environment={"NCCL_DEBUG": "INFO"}, metric_definitions=[{"Name": "loss", "Regex": "loss=(.*)"}],
    distribution={"torch_distributed": {"enabled": True}}, base_job_name="mnist", sagemaker_session=session,
    disable_profiler=True, keep_alive_period_in_seconds=600, tags=[{"Key": "team", "Value": "vision"}],
)
estimator.fit({"training": TrainingInput(inputs, content_type="application/x-parquet")}, wait=False, job_name="mnist-1")
tuner = HyperparameterTuner(
    estimator, "loss", {"lr": ContinuousParameter(0.001, 0.1)}, [{"Name": "loss", "Regex": "loss=(.*)"}],
    objective_type="Minimize", max_jobs=4, max_parallel_jobs=2,
)
tuner.fit({"training": inputs})
predictor = estimator.deploy(
    initial_instance_count=1, instance_type="ml.g5.xlarge", endpoint_name="mnist",
    serializer=JSONSerializer(), deserializer=JSONDeserializer(), container_startup_health_check_timeout=300,
)
predictor.predict({"x": 1})
predictor.delete_endpoint(delete_endpoint_config=True)
model = PyTorchModel(
    model_data=estimator.model_data, role=role, entry_point="inference.py", source_dir="src",
    framework_version="2.3", py_version="py311", env={"TS_MAX_RESPONSE_SIZE": "1000"}, name="mnist-model",
)
model.deploy(1, "ml.g5.xlarge", endpoint_name="mnist-2", inference_ami_version="al2-ami-sagemaker-inference-gpu-2")
transformer = model.transformer(1, "ml.g5.xlarge", output_path="s3://bucket/out", max_payload=10)
transformer.transform("s3://bucket/in", content_type="application/json", split_type="Line", wait=True)
image_uris.retrieve("pytorch", "us-east-1", version="2.3", py_version="py311", image_scope="training",
                    instance_type="ml.g5.xlarge")
"""

PROCESSING = """
from sagemaker.huggingface import HuggingFace, HuggingFaceModel, get_huggingface_llm_image_uri
from sagemaker.processing import FrameworkProcessor, ProcessingInput, ProcessingOutput, ScriptProcessor
from sagemaker.jumpstart.model import JumpStartModel
from sagemaker.sklearn import SKLearn
from sagemaker.sklearn.processing import SKLearnProcessor
from sagemaker.tensorflow import TensorFlow, TensorFlowModel
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import ProcessingStep, TrainingStep

role = "arn:aws:iam::123456789012:role/service-role/AmazonSageMaker-ExecutionRole-20240101T000000"
processor = ScriptProcessor(
    image_uri="account.dkr.ecr.us-east-1.amazonaws.com/image:1", command=["python3"], role=role, instance_count=1,
    instance_type="ml.g5.xlarge", volume_size_in_gb=50, max_runtime_in_seconds=3600, env={"A": "1"},
)
processor.run(
    code="process.py", inputs=[ProcessingInput(source="s3://b/in", destination="/opt/ml/processing/input")],
    outputs=[ProcessingOutput(output_name="out", source="/opt/ml/processing/output", destination="s3://b/out")],
    arguments=["--a", "1"], wait=True, logs=False, job_name="process-1",
)
FrameworkProcessor(
    estimator_cls=SKLearn, framework_version="1.2-1", role=role, instance_count=1, instance_type="ml.m5.xlarge",
).run(code="p.py", source_dir="src", dependencies=["lib"])
SKLearnProcessor(framework_version="1.2-1", role=role, instance_type="ml.m5.xlarge", instance_count=1)
TensorFlow(
    entry_point="train.py", role=role, framework_version="2.14", py_version="py310", instance_count=1,
    instance_type="ml.g4dn.xlarge", model_dir=False, script_mode=None or True, max_run=60,
) if False else None
TensorFlowModel(model_data="s3://b/m.tar.gz", role=role, framework_version="2.14").deploy(
    initial_instance_count=1, instance_type="ml.g4dn.xlarge"
)
HuggingFace(
    entry_point="train.py", source_dir="src", role=role, transformers_version="4.28", pytorch_version="2.0",
    py_version="py310", instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"epochs": 1},
)
HuggingFaceModel(role=role, image_uri=get_huggingface_llm_image_uri("huggingface"), env={"HF_MODEL_ID": "m"}).deploy(
    initial_instance_count=1, instance_type="ml.g5.xlarge", container_startup_health_check_timeout=300,
)
JumpStartModel(model_id="m").deploy(accept_eula=True)
"""

V3 = """
from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.core.processing import ScriptProcessor
from sagemaker.core.resources import TrainingJob
from sagemaker.core.shapes import AlgorithmSpecification
from sagemaker.core import image_uris
from sagemaker.serve import InferenceSpec, ModelBuilder
from sagemaker.serve.builder.schema_builder import SchemaBuilder
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import (
    CheckpointConfig, Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition,
)
from sagemaker.train.distributed import MPI, Torchrun

trainer = ModelTrainer(
    training_image="image:1", role=get_execution_role(), base_job_name="mnist", sagemaker_session=Session(),
    compute=Compute(instance_type="ml.g5.12xlarge", instance_count=1, volume_size_in_gb=100,
                    enable_managed_spot_training=True, keep_alive_period_in_seconds=60),
    source_code=SourceCode(source_dir="src", entry_script="train.py", requirements="requirements.txt"),
    distributed=Torchrun(process_count_per_node=4), hyperparameters={"epochs": 1}, environment={"A": "1"},
    stopping_condition=StoppingCondition(max_runtime_in_seconds=3600, max_wait_time_in_seconds=7200),
    output_data_config=OutputDataConfig(s3_output_path="s3://b/out"),
    checkpoint_config=CheckpointConfig(s3_uri="s3://b/c"),
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://b/in")], wait=False)
builder = ModelBuilder(model="m", role_arn="arn:aws:iam::123456789012:role/r", instance_type="ml.g5.xlarge")
builder.build(model_name="m")
builder.deploy(endpoint_name="mnist", initial_instance_count=1)
"""

BOTO3 = """
import time
import boto3

client = boto3.client("sagemaker", region_name="us-east-1")
name = f"train-{int(time.time())}"
client.create_training_job(
    TrainingJobName=name,
    RoleArn="arn:aws:iam::123456789012:role/sagemaker",
    AlgorithmSpecification={"TrainingImage": "image:1", "TrainingInputMode": "File"},
    HyperParameters={"epochs": "10", "lr": str(0.1)},
    InputDataConfig=[{
        "ChannelName": "train",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/in"}},
    }],
    OutputDataConfig={"S3OutputPath": "s3://b/out"},
    ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
    StoppingCondition={"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
    EnableManagedSpotTraining=True,
    Tags=[{"Key": "a", "Value": "b"}],
)
client.create_endpoint_config(
    EndpointConfigName="config",
    ProductionVariants=[{
        "VariantName": "all", "ModelName": "m", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1,
        "InitialVariantWeight": 1,
    }],
)
client.create_endpoint(EndpointName="endpoint", EndpointConfigName="config")
client.create_notebook_instance(
    NotebookInstanceName="n", InstanceType="ml.t3.medium", RoleArn="arn:aws:iam::123456789012:role/r", VolumeSizeInGB=5
)
boto3.client("ec2").run_instances(
    ImageId="ami-0", InstanceType="g5.xlarge", MinCount=1, MaxCount=1,
    BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100, "VolumeType": "gp3"}}],
    UserData="echo", TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}],
)
"""


def found(tmp_path: Path, text: str, *, sdk: int | None = 2, only: tuple[str, ...] = FAMILY) -> list[Hit]:
    (tmp_path / "launch.py").write_text(text)
    # Strict: a name that is written out works once.
    selection = Selection(select=only, ignore=("SDK108",))
    options = CheckOptions(selection, target=Target(sagemaker_sdk=sdk))
    return [hit for hit in check_paths([str(tmp_path)], options).hits if hit.code.startswith("SDK")]


def lines(hits: list[Hit]) -> list[str]:
    return [f"{hit.code} {hit.finding.location.line}: {hit.finding.message}" for hit in hits]


@pytest.mark.parametrize(
    ("text", "sdk"), [(SCRIPT_MODE, 2), (PROCESSING, 2), (V3, 3), (V3, None), (BOTO3, 2), (BOTO3, None)]
)
def test_a_correct_launcher_has_no_finding(tmp_path: Path, text: str, sdk: int | None) -> None:
    hits = [hit for hit in found(tmp_path, text, sdk=sdk) if "script_mode" not in hit.finding.message]
    assert lines(hits) == []


def test_a_launcher_of_v2_gets_one_note_where_the_version_is_not_pinned(tmp_path: Path) -> None:
    hits = found(tmp_path, SCRIPT_MODE, sdk=None)
    assert [(hit.code, hit.finding.severity) for hit in hits] == [("SDK201", Severity.NOTE)]


def test_a_launcher_of_v2_is_all_errors_where_v3_is_wanted(tmp_path: Path) -> None:
    hits = found(tmp_path, SCRIPT_MODE, sdk=3, only=("SDK201",))
    assert len(hits) > 8
    assert all(hit.finding.severity is Severity.ERROR and hit.finding.remedy for hit in hits)


@pytest.mark.parametrize(
    ("line", "code", "severity"),
    [
        ('PyTorchModel(model_data="m", role="r", instance_type="ml.g4dn.xlarge")', "SDK101", Severity.ERROR),
        ('TensorFlowModel(model_data="m", role="r", py_version="py39")', "SDK101", Severity.ERROR),
        ('PyTorch(entry_point="t.py", role="r", job_name="j")', "SDK101", Severity.WARNING),
        ('PyTorch(entry_point="t.py", role="r", entry_pont="t.py")', "SDK101", Severity.WARNING),
        (
            'PyTorchModel("m", "r", "i.py").deploy(1, "ml.g5.xlarge", predictor_cls=P)',
            "SDK101",
            Severity.WARNING,
        ),
        ('TensorFlow(entry_point="t.py", role="r", script_mode=True)', "SDK102", Severity.WARNING),
        ('PyTorch(entry_point="t.py", role="r", image_name="image")', "SDK102", Severity.WARNING),
        ('PyTorch("t.py", "2.3", "py311").deploy(1)', "SDK104", Severity.ERROR),
        ('TensorFlow(role="r", framework_version="2.14", py_version="py310")', "SDK104", Severity.ERROR),
    ],
)
def test_one_line_of_v2_that_is_wrong(tmp_path: Path, line: str, code: str, severity: Severity) -> None:
    head = (
        "from sagemaker.pytorch import PyTorch, PyTorchModel\n"
        "from sagemaker.tensorflow import TensorFlow, TensorFlowModel\n"
        "from sagemaker.predictor import Predictor as P\n"
    )
    hits = found(tmp_path, head + line)
    assert [(hit.code, hit.finding.severity) for hit in hits] == [(code, severity)], lines(hits)


def test_v1_words_are_errors_where_v3_is_wanted(tmp_path: Path) -> None:
    text = 'from sagemaker.pytorch import PyTorch\nPyTorch("t.py", train_instance_type="ml.p3.2xlarge")\n'
    hits = found(tmp_path, text, sdk=3, only=("SDK102",))
    assert [hit.finding.severity for hit in hits] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("pinned", "severity"),
    [
        ("boto3>=1.30", Severity.WARNING),
        ("boto3==1.42.1", Severity.WARNING),
        ("boto3==1.35.0", Severity.ERROR),
        ("botocore==1.40.60", Severity.ERROR),
    ],
)
def test_a_job_without_a_limit_is_an_error_only_with_an_old_botocore(
    tmp_path: Path, pinned: str, severity: Severity
) -> None:
    (tmp_path / "requirements.txt").write_text(pinned + "\n")
    lines = (line for line in BOTO3.splitlines() if "StoppingCondition=" not in line and "Spot" not in line)
    [hit] = found(tmp_path, "\n".join(lines))
    assert (hit.code, hit.finding.severity) == ("SDK105", severity)


def test_a_member_of_the_wrong_type_is_reported_with_its_path(tmp_path: Path) -> None:
    text = BOTO3.replace('"InstanceCount": 1', '"InstanceCount": "1"')
    [hit] = found(tmp_path, text)
    assert hit.code == "SDK106"
    assert "`ResourceConfig.InstanceCount`" in hit.finding.message


@pytest.mark.parametrize(
    ("name", "better"), [("my_endpoint", "my-endpoint"), ("my endpoint", "my-endpoint"), ("y" * 70, None)]
)
def test_a_name_that_aws_refuses(tmp_path: Path, name: str, better: str | None) -> None:
    hits = found(tmp_path, BOTO3.replace('EndpointName="endpoint"', f'EndpointName="{name}"'))
    assert [hit.code for hit in hits] == ["SDK107"]
    assert hits[0].finding.remedy == (f'Write "{better}".' if better else None)


def test_a_client_of_another_service_is_not_looked_at(tmp_path: Path) -> None:
    text = (
        'import boto3\nboto3.client("forecast").create_model(name="a_b")\nfactory.create_model(kind="big")\n'
    )
    assert found(tmp_path, text) == []
