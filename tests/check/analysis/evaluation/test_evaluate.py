"""What an expression can be: known, default, unknown or absent."""

from pathlib import Path

import pytest

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.project import Project
from gpuproof.linter.source.read import read_units
from support.check_helpers import module_of, value_of, write_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('x = "ml.g5.xlarge"', "ml.g5.xlarge"),
        ('size = "xlarge"\nx = f"ml.g5.{size}"', "ml.g5.xlarge"),
        ('x = "ml." + "g5" + ".xlarge"', "ml.g5.xlarge"),
        ('x = "ml.{}.{}".format("g5", "xlarge")', "ml.g5.xlarge"),
        ('x = "ml.{family}.xlarge".format(family="g5")', "ml.g5.xlarge"),
        ('x = "ml.%s.%s" % ("g5", "xlarge")', "ml.g5.xlarge"),
        ('d = {"type": "ml.g5.xlarge"}\nx = d["type"]', "ml.g5.xlarge"),
        ('d = dict(type="ml.g5.xlarge")\nx = d["type"]', "ml.g5.xlarge"),
        ('d = {"a": 1}\nd["type"] = "ml.g5.xlarge"\nx = d["type"]', "ml.g5.xlarge"),
        ('base = {"type": "a"}\nd = {**base, "type": "b"}\nx = d["type"]', "b"),
        ('d = {"a": 1}\nx = d.get("type", "ml.m5.large")', "ml.m5.large"),
        ('import os\nx = os.path.join("/opt", "ml", "model")', "/opt/ml/model"),
        ('from pathlib import Path\nx = Path("/opt/ml") / "model" / "1"', "/opt/ml/model/1"),
        ('x = "ML.G5".lower()', "ml.g5"),
        ("x = 2 * 3 + 1", 7),
        ("x = -1", -1),
        ("a, x = 1, 2", 2),
        ("if True:\n    x = 1", 1),
        ("x = 1\nx = 2", 2),
        ("x = 1\nif unknown():\n    pass", 1),
        ("with open('f') as f:\n    x = 3", 3),
        ("try:\n    x = 3\nexcept OSError:\n    raise", 3),
    ],
)
def test_what_is_written_is_known(text: str, expected: object) -> None:
    value = value_of(text)
    assert (value.certainty, value.value) == ("known", expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('import os\nx = os.environ.get("TYPE", "ml.g5.xlarge")', "ml.g5.xlarge"),
        ('import os\nx = os.getenv("TYPE", "ml.g5.xlarge")', "ml.g5.xlarge"),
        ('x = given() or "ml.g5.xlarge"', "ml.g5.xlarge"),
        (
            'from sagemaker.workflow.parameters import ParameterString\nx = ParameterString("T", default_value="a")',
            "a",
        ),
        ('import os\nx = os.environ["SM_MODEL_DIR"]', "/opt/ml/model"),
        (
            'import os\nx = os.path.join(os.environ["SM_CHANNEL_TRAIN"], "a.csv")',
            "/opt/ml/input/data/train/a.csv",
        ),
    ],
)
def test_a_value_that_can_be_overridden_is_a_default(text: str, expected: object) -> None:
    value = value_of(text)
    assert (value.certainty, value.value) == ("default", expected)


@pytest.mark.parametrize(
    "text",
    [
        "x = given()",
        "import sys\nx = sys.argv[1]",
        "x = f'{given()}'",
        "x = 1\nx += 1",
        "for x in [1, 2]:\n    pass",
        "x = 1\ndef f():\n    global x\n    x = given()",
        "d = {'a': 1}\nd.update(given())\nx = d['a']",
        "d = {'a': 1}\nd[given()] = 2\nx = d['b']",
        "x = x",
        "import os\nx = os.environ['HOME']",
        "from elsewhere import x",
    ],
)
def test_what_cannot_be_seen_is_unknown(text: str) -> None:
    assert value_of(text).is_unknown


def test_a_ternary_has_both_options() -> None:
    value = value_of("import sys\nx = 'ml.g5.xlarge' if len(sys.argv) > 1 else 'ml.m5.large'")
    assert value.options == ("ml.g5.xlarge", "ml.m5.large")
    assert not value.is_known
    assert value.text is None


def test_branches_of_an_if_are_options() -> None:
    assert value_of("if given():\n    x = 1\nelse:\n    x = 2").options == (1, 2)


def test_a_later_binding_in_the_loop_comes_round() -> None:
    module = module_of("x = 1\nfor i in items:\n    use(x)\n    x = 2\n")
    use = calls_named(module, "use")[0]
    assert evaluate(module, use.node.args[0]).options == (1, 2)


def test_the_beginning_and_the_end_of_an_unknown_text_are_kept() -> None:
    value = value_of("x = f's3://{bucket}/model.tar.gz'")
    assert (value.is_unknown, value.prefix, value.suffix) == (True, "s3://", "/model.tar.gz")


def test_a_parameter_without_a_default_is_unknown_and_one_with_it_is_a_default() -> None:
    module = module_of("def f(a, b='ml.g5.xlarge'):\n    use(a, b)\n")
    use = calls_named(module, "use")[0]
    assert evaluate(module, use.node.args[0]).is_unknown
    assert evaluate(module, use.node.args[1]).certainty == "default"


def test_argparse_provides_its_default() -> None:
    module = module_of(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch-size", type=int, default=64)
        parser.add_argument("--name")
        args = parser.parse_args()
        use(args.batch_size, args.name, args.other)
        """
    )
    batch, name, other = (evaluate(module, argument) for argument in calls_named(module, "use")[0].node.args)
    assert (batch.certainty, batch.value) == ("default", 64)
    assert name.is_unknown
    assert other.is_unknown


def test_a_constant_of_a_sibling_module_is_known(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"config.py": "TYPE = 'ml.g5.xlarge'\n", "main.py": "import config\nuse(config.TYPE)\n"}
    )
    units, _ = read_units([str(tmp_path / "main.py")])
    module = Project(units).workspace.module(units[0])
    assert module is not None
    assert evaluate(module, calls_named(module, "use")[0].node.args[0]).value == "ml.g5.xlarge"


def test_values_within_a_mapping_know_where_they_are_written() -> None:
    value = value_of('x = {\n    "a": 1,\n    "b": 2,\n}')
    assert value.at("b").span is not None
    assert value.at("b").span.line == 3


def test_a_key_of_an_open_mapping_is_unknown_and_of_a_closed_one_absent() -> None:
    assert value_of("x = {'a': 1}").at("b").is_absent
    assert value_of("x = {'a': 1, **more()}").at("b").is_unknown


def test_what_another_function_adds_to_a_mapping_of_the_same_name_is_not_ours() -> None:
    module = module_of(
        "class Session:\n"
        "    def a(self):\n        request = {'A': 1}\n        request['B'] = 2\n"
        "    def b(self):\n        request = {'C': 3}\n        request['D'] = 4\n        use(request)\n"
    )
    entries = evaluate(module, calls_named(module, "use")[0].node.args[0]).entries
    assert entries is not None
    assert sorted(entries) == ["C", "D"]
