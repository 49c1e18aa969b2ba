"""Jobs, whatever describes them, and the link to their scripts."""

from pathlib import Path

import pytest

from gpuproof.linter.jobs.definition import JobDefinition
from support.check_helpers import jobs_in, write_files


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder is one of the places where an entry point is looked for."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)


def only_job(folder: Path, text: str, name: str = "launch.py", **others: str) -> JobDefinition:
    write_files(
        folder, {name: text, **{key.replace("__", "/") + ".py": value for key, value in others.items()}}
    )
    jobs = jobs_in(folder, name)
    assert len(jobs) == 1, [job.api for job in jobs]
    return jobs[0]


def test_an_estimator_is_a_training_job_linked_to_its_script(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """
        from sagemaker.pytorch import PyTorch
        estimator = PyTorch(
            entry_point="train.py", source_dir="src", instance_type="ml.g5.xlarge", instance_count=2,
            framework_version="2.3", hyperparameters={"epochs": 3}, use_spot_instances=True,
        )
        estimator.fit({"train": "s3://bucket/train", "test": "s3://bucket/test"})
        """,
        src__train="print(1)",
    )
    assert (job.kind, job.framework, job.instance_type.text, job.instance_count.value) == (
        "training",
        "pytorch",
        "ml.g5.xlarge",
        2,
    )
    assert set(job.channels) == {"train", "test"}
    assert job.channels_known
    assert job.argument("use_spot_instances").flag is True
    assert job.distribution.is_absent
    assert job.script is not None
    assert job.script.title == "train.py"
    assert job.script_found is True


def test_keywords_through_a_known_mapping_count(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """
        from sagemaker.pytorch import PyTorch
        common = dict(instance_type="ml.g5.xlarge", instance_count=1)
        PyTorch(entry_point="train.py", **common)
        """,
    )
    assert job.instance_type.text == "ml.g5.xlarge"
    assert job.distribution.is_absent


def test_behind_unknown_keywords_nothing_is_absent(tmp_path: Path) -> None:
    job = only_job(
        tmp_path, "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='train.py', **load_config())\n"
    )
    assert job.distribution.is_unknown
    assert job.instance_type.is_unknown


def test_a_single_input_is_the_channel_training(tmp_path: Path) -> None:
    job = only_job(
        tmp_path, "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='t.py').fit('s3://b/x')\n"
    )
    assert set(job.channels) == {"training"}
    assert job.channels_known


def test_an_unknown_input_leaves_the_channels_open(tmp_path: Path) -> None:
    job = only_job(
        tmp_path, "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='t.py').fit(inputs())\n"
    )
    assert not job.channels_known


def test_deploy_is_an_endpoint_that_knows_its_model(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "launch.py": """
            from sagemaker.tensorflow import TensorFlowModel
            model = TensorFlowModel(model_data="s3://b/m.tar.gz", role="r", framework_version="2.11")
            predictor = model.deploy(1, "ml.g4dn.xlarge")
            """
        },
    )
    (job,) = jobs_in(tmp_path, "launch.py")
    assert (job.kind, job.instance_type.text, job.instance_count.value) == ("endpoint", "ml.g4dn.xlarge", 1)
    assert job.model is not None
    assert job.framework == "tensorflow"
    assert job.framework_version.text == "2.11"


def test_deploying_an_estimator_makes_two_jobs(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "launch.py": """
            from sagemaker.pytorch import PyTorch
            e = PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", instance_count=1)
            e.fit()
            e.deploy(initial_instance_count=1, instance_type="ml.m5.large", entry_point="serve.py")
            """,
            "train.py": "",
            "serve.py": "",
        },
    )
    training, endpoint = jobs_in(tmp_path, "launch.py")
    assert training.script is not None
    assert endpoint.script is not None
    assert (training.script.title, endpoint.script.title) == ("train.py", "serve.py")
    assert endpoint.model is not None
    assert endpoint.model.api == "sagemaker.pytorch.PyTorch"


def test_a_serverless_endpoint_has_no_instance(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        "from sagemaker.pytorch import PyTorchModel\n"
        "PyTorchModel(entry_point='i.py').deploy(serverless_inference_config=config)\n",
    )
    assert job.instance_type.is_absent


def test_a_deploy_of_something_else_is_not_an_endpoint(tmp_path: Path) -> None:
    write_files(tmp_path, {"launch.py": "import sagemaker\nstack.deploy()\n"})
    assert jobs_in(tmp_path, "launch.py") == []


def test_a_tuner_hands_its_channels_to_the_estimator(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """
        from sagemaker.pytorch import PyTorch
        from sagemaker.tuner import HyperparameterTuner
        estimator = PyTorch(entry_point="train.py")
        tuner = HyperparameterTuner(estimator, "loss", {})
        tuner.fit({"train": "s3://b/x"})
        """,
    )
    assert set(job.channels) == {"train"}


def test_a_processor_is_linked_by_its_run(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """
        from sagemaker.processing import ProcessingInput, ProcessingOutput, ScriptProcessor
        p = ScriptProcessor(role="r", image_uri="i", command=["python3"], instance_count=1, instance_type="ml.g5.2xlarge")
        p.run(
            code="process.py",
            inputs=[ProcessingInput(source="s3://b/in", destination="/opt/ml/processing/input", input_name="data")],
            outputs=[ProcessingOutput(output_name="out", source="/opt/ml/processing/output")],
            arguments=["--x", "1"],
        )
        """,
        process="print(1)",
    )
    assert (job.kind, job.instance_type.text) == ("processing", "ml.g5.2xlarge")
    assert job.inputs is not None
    assert job.inputs[0].path.text == "/opt/ml/processing/input"
    assert job.outputs is not None
    assert job.outputs[0].path.text == "/opt/ml/processing/output"
    assert job.script is not None


def test_model_trainer_of_v3(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """
        from sagemaker.train import ModelTrainer
        from sagemaker.train.configs import Compute, InputData, SourceCode
        from sagemaker.train.distributed import Torchrun
        trainer = ModelTrainer(
            training_image="image", source_code=SourceCode(source_dir="src", entry_script="train.py"),
            compute=Compute(instance_type="ml.g5.12xlarge", instance_count=1), distributed=Torchrun(),
        )
        trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://b/x")])
        """,
        src__train="print(1)",
    )
    assert (job.source, job.instance_type.text) == ("sagemaker-v3", "ml.g5.12xlarge")
    assert "Torchrun" in job.distribution.parts
    assert set(job.channels) == {"train"}
    assert job.script is not None


def test_a_request_to_boto3_through_a_variable(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """
        import boto3
        request = {
            "TrainingJobName": "a",
            "AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File"},
            "ResourceConfig": {"InstanceType": "ml.p2.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
            "InputDataConfig": [{"ChannelName": "train"}],
            "HyperParameters": {"sagemaker_program": "train.py"},
        }
        boto3.client("sagemaker").create_training_job(**request)
        """,
        train="print(1)",
    )
    assert (job.source, job.instance_type.text, job.instance_count.value) == ("boto3", "ml.p2.xlarge", 1)
    assert set(job.channels) == {"train"}
    assert job.argument("StoppingCondition").is_absent
    assert job.script is not None


def test_each_variant_of_an_endpoint_configuration_is_a_job(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "a.py": """
            import boto3
            boto3.client("sagemaker").create_endpoint_config(ProductionVariants=[
                {"InstanceType": "ml.m5.large", "InitialInstanceCount": 1},
                {"InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 2},
            ])
            """
        },
    )
    assert [job.instance_type.text for job in jobs_in(tmp_path, "a.py")] == ["ml.m5.large", "ml.g5.xlarge"]


def test_gpuproof_yaml_knows_lines(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """\
        jobs:
          train:
            entry_point: train.py
            instance_type: ml.g5.12xlarge
        """,
        name="gpuproof.yaml",
        train="print(1)",
    )
    assert job.source == "gpuproof"
    assert job.instance_type.span is not None
    assert job.instance_type.span.line == 4
    assert job.script is not None


def test_cloudformation_in_yaml_and_json(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "t.yaml": """\
            Parameters:
              Size: {Type: String, Default: ml.g5.xlarge}
            Resources:
              Notebook:
                Type: AWS::SageMaker::NotebookInstance
                Properties:
                  InstanceType: !Ref Size
                  RoleArn: !GetAtt Role.Arn
            """,
            "t.json": '{"Resources": {"N": {"Type": "AWS::SageMaker::NotebookInstance",\n'
            '  "Properties": {"InstanceType": {"Ref": "Size"}, "RoleArn": "r"}}}}',
        },
    )
    (of_yaml,) = jobs_in(tmp_path, "t.yaml")
    (of_json,) = jobs_in(tmp_path, "t.json")
    assert (of_yaml.kind, of_yaml.instance_type.certainty, of_yaml.instance_type.text) == (
        "notebook",
        "default",
        "ml.g5.xlarge",
    )
    assert of_yaml.argument("RoleArn").is_unknown
    assert of_yaml.argument("DirectInternetAccess").is_absent
    assert of_json.instance_type.is_unknown


@pytest.mark.parametrize("name", ["job.json", "job.yaml"])
def test_a_request_in_a_file(tmp_path: Path, name: str) -> None:
    job = only_job(
        tmp_path,
        """\
        {
          "TrainingJobName": "train",
          "AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File"},
          "ResourceConfig": {"InstanceType": "ml.p2.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50}
        }
        """,
        name=name,
    )
    assert (job.kind, job.instance_type.text) == ("training", "ml.p2.xlarge")
    assert job.instance_type.span is not None
    assert job.instance_type.span.line == 4


def test_other_json_is_not_a_job(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.json": '{"InstanceType": "ml.p2.xlarge"}', "b.json": '["InstanceType"]'})
    assert jobs_in(tmp_path, "a.json", "b.json") == []


def test_terraform(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """\
        resource "aws_sagemaker_notebook_instance" "n" {
          name          = "n"
          instance_type = "ml.g5.xlarge" # a comment
          role_arn      = aws_iam_role.r.arn
        }
        """,
        name="main.tf",
    )
    assert (job.kind, job.instance_type.text) == ("notebook", "ml.g5.xlarge")
    assert job.argument("role_arn").is_unknown
    assert job.argument("direct_internet_access").is_absent
    assert job.instance_type.span is not None
    assert job.instance_type.span.line == 3


def test_a_writefile_cell_is_a_script(tmp_path: Path) -> None:
    import json

    cells = [
        "%%writefile src/train.py\nprint(1)\n",
        "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='train.py', source_dir='src')",
    ]
    document = {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "metadata": {}}
    write_files(tmp_path, {"nb.ipynb": json.dumps(document)})
    (job,) = jobs_in(tmp_path, "nb.ipynb")
    assert job.script is not None
    assert job.script.unit.kind == "cell-file"
    assert job.script.unit.file_position(1, 1) == (1, 2, 1)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("entry_point='missing.py', source_dir='src'", False),
        ("entry_point='train.py', source_dir='src'", True),
        ("entry_point='train.py', source_dir='s3://bucket/source.tar.gz'", None),
        ("entry_point='train.py', source_dir='src', git_config={'repo': 'r'}", None),
        ("entry_point=name(), source_dir='src'", None),
        ("entry_point='train.py', source_dir=folder()", None),
    ],
)
def test_a_missing_script_is_certain_only_where_its_folder_can_be_seen(
    tmp_path: Path, arguments: str, found: bool | None
) -> None:
    job = only_job(
        tmp_path, f"from sagemaker.pytorch import PyTorch\nPyTorch({arguments})\n", src__train="print(1)"
    )
    assert job.script_found is found


def test_a_pipeline_step_links_like_a_run(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        """
        from sagemaker.processing import ScriptProcessor
        from sagemaker.workflow.steps import ProcessingStep
        p = ScriptProcessor(role="r", image_uri="i", command=["python3"], instance_count=1, instance_type="ml.m5.large")
        step = ProcessingStep(name="s", processor=p, code="process.py")
        """,
        process="print(1)",
    )
    assert job.script is not None


def test_a_helper_that_returns_the_estimator_has_the_channels_of_its_caller(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        "from sagemaker.pytorch import PyTorch\n\n"
        "def estimator(**more):\n"
        '    return PyTorch(entry_point="train.py", source_dir=".", instance_type="ml.g5.xlarge", **more)\n\n'
        'job = estimator(base_job_name="nightly")\n'
        'job.fit({"training": "s3://bucket/data"})\n',
        train="print(1)",
    )
    assert job.script is not None
    assert (list(job.channels), job.channels_known) == (["training"], True)


def test_a_job_class_has_the_channels_of_its_method(tmp_path: Path) -> None:
    job = only_job(
        tmp_path,
        "from sagemaker.pytorch import PyTorch\n\n"
        "class Job:\n"
        "    def __init__(self, kind):\n"
        '        self.estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type=kind)\n\n'
        "    def run(self):\n"
        '        self.estimator.fit({"images": "s3://bucket/images"})\n',
    )
    assert list(job.channels) == ["images"]
