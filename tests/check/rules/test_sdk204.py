"""Attributes of SDK objects (SDK204), beyond the examples of the rule."""

from pathlib import Path

import pytest

from support.check_helpers import check_here, write_files

V3 = """from sagemaker.core.processing import ScriptProcessor
from sagemaker.core.resources import Endpoint, TrainingJob
from sagemaker.serve import ModelBuilder
from sagemaker.train import ModelTrainer
from sagemaker.train.tuner import HyperparameterTuner

t = ModelTrainer(training_image="i:1", role="r")
"""
V2 = """from sagemaker.estimator import Estimator
from sagemaker.model import Model
from sagemaker.tensorflow import TensorFlowModel
from sagemaker.tuner import HyperparameterTuner

e = Estimator("i:1", "r", 1, "ml.g5.xlarge")
m = Model("i:1", role="r")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(code: str) -> list[tuple[str, str]]:
    """The attribute and the remedy of each finding."""
    write_files(Path.cwd(), {"launch.py": code})
    hits = check_here(select=("SDK204",)).hits
    return [
        (
            hit.span.unit.lines[hit.span.line - 1][hit.span.column - 1 : hit.span.end_column - 1],
            str(hit.finding.remedy),
        )
        for hit in hits
    ]


@pytest.mark.parametrize(
    ("code", "attribute", "remedy"),
    [
        ("t.fit(wait=False)", "fit", ".train("),
        ("p = t.deploy(1, 'ml.g5.xlarge')", "deploy", "ModelBuilder(model=trainer"),
        ("print(t.model_data)", "model_data", "s3_model_artifacts"),
        ("print(t.latest_training_job.name)", "latest_training_job", "_latest_training_job"),
        ("ModelTrainer(training_image='i').fit()", "fit", ".train("),
        ("again = t\nagain.fit()", "fit", ".train("),
        ("ModelTrainer.from_recipe(training_recipe='x', compute=None).fit()", "fit", ".train("),
        ("t.with_checkpoint_config(None).fit()", "fit", ".train("),
        ("def make():\n    return ModelTrainer(training_image='i')\n\n\nmake().fit()", "fit", ".train("),
        ("ModelBuilder(model=t).deploy(endpoint_name='e').predict([1])", "predict", ".invoke("),
        ("Endpoint.get(endpoint_name='e').delete_endpoint()", "delete_endpoint", ".delete()"),
        ("TrainingJob.get(training_job_name='j').model_data", "model_data", "s3_model_artifacts"),
        ("HyperparameterTuner(t, 'loss', {}).fit()", "fit", ".tune()"),
        ("t.trian()", "trian", ".train"),
    ],
)
def test_what_version_3_does_not_have(code: str, attribute: str, remedy: str) -> None:
    ((name, text),) = found(V3 + code)
    assert name == attribute
    assert remedy in text


@pytest.mark.parametrize(
    ("code", "attribute", "remedy"),
    [
        ("e.train()", "train", ".fit("),
        ("e.deploy(1, 'ml.g5.xlarge').invoke(b'')", "invoke", ".predict("),
        ("m.build()", "build", ".deploy()"),
        ("m.deploy(1, 'ml.g5.xlarge').delete()", "delete", ".delete_endpoint()"),
        ("HyperparameterTuner(e, 'loss', {}).tune()", "tune", ".fit("),
    ],
)
def test_what_version_2_does_not_have(code: str, attribute: str, remedy: str) -> None:
    ((name, text),) = found(V2 + code)
    assert name == attribute
    assert remedy in text


@pytest.mark.parametrize(
    "code",
    [
        V3 + "t.train()\nprint(t.training_image, t.compute, t.model_dump())",
        V3 + "job = t._latest_training_job\nprint(job.anything)",
        V3
        + "b = ModelBuilder(model=t)\nmodel = b.build()\nprint(model.model_name)\nb.deploy(endpoint_name='e').invoke(body=b'')",
        V3 + "e = Endpoint.get(endpoint_name='e')\nprint(e.endpoint_arn, e.endpoint_status)\ne.delete()",
        V3 + "ScriptProcessor(role='r', image_uri='i', command=['python']).run(code='p.py')",
        V3 + "t = object()\nt.fit()",
        V3 + "if len('x'):\n    t = make()\nt.fit()",
        V3 + "def start(t):\n    t.fit()",
        V3 + "ModelTrainer.fit = lambda self: self.train()\nt.fit()",
        V2
        + "e.fit()\nprint(e.model_data, e.latest_training_job.name)\np = e.deploy(1, 'ml.g5.xlarge')\nprint(p.endpoint_name)\np.predict([1])\np.delete_endpoint()",
        V2 + "TensorFlowModel(model_data='s3://b/m', role='r').deploy(1, 'ml.g5.xlarge').classify([1])",
        V2
        + "e.create_model().deploy(1, 'ml.g5.xlarge').predict([1])\ne.transformer(1, 'ml.g5.xlarge').transform('s3://b/x')",
        V2 + "m.deploy(1, 'ml.g5.xlarge', async_inference_config=object()).predictor.delete_endpoint()",
        V2 + "Model('i:1', role='r', predictor_cls=Mine).deploy(1, 'ml.g5.xlarge').invoke(b'')",
        "from mylib import ModelTrainer\nModelTrainer().fit()",
    ],
)
def test_what_the_objects_have(code: str) -> None:
    assert found(code) == []


def test_an_object_that_is_kept_in_self() -> None:
    code = (
        V3
        + """

class Launch:
    def __init__(self):
        self.trainer = None
        self.trainer = ModelTrainer(training_image="i", role="r")

    def run(self):
        self.trainer.train()
        return self.trainer.fit()
"""
    )
    assert [name for name, _ in found(code)] == ["fit"]
