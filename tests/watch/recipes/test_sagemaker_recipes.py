"""Each file of docs/watch-sagemaker.md, run by the program for which it is written, against an emulator."""

from __future__ import annotations

import pytest

from support.sagemaker_recipes import Recipes

pytestmark = [pytest.mark.slow, pytest.mark.journey, pytest.mark.xdist_group("watch-sagemaker")]

both = pytest.mark.parametrize("uses_gpu", [True, False], ids=["used", "unused"])


@both
def test_boto3(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    recipes.upload_source()
    code = recipes.block("boto3", "python").replace("digits-1", recipes.aws.name())
    done = recipes.run_python(code)
    assert done.returncode == 0, done.stderr
    recipes.check(uses_gpu=uses_gpu)


@both
def test_sdk_v2(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    (recipes.source / "watch.sh").write_text(recipes.block("SageMaker SDK v2", "bash"))
    done = recipes.run_python(recipes.block("SageMaker SDK v2", "python"), "sagemaker-v2")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    # The toolkit's own exit code.
    recipes.check(uses_gpu=uses_gpu, exit_code=1)
    assert ("[gpu-unused] " in done.stdout + done.stderr) is not uses_gpu
    assert '"train.py", "--epochs", "2"' in " ".join(recipes.report().split())


def test_the_variable_that_names_another_entry_point(recipes: Recipes) -> None:
    recipes.write_script(uses_gpu=False)
    (recipes.source / "watch.sh").write_text(recipes.block("SageMaker SDK v2", "bash"))
    changed = 'entry_point="watch.sh",'
    code = recipes.block("SageMaker SDK v2", "python")
    assert changed in code
    code = code.replace(changed, 'entry_point="train.py", environment={"SAGEMAKER_PROGRAM": "watch.sh"},')
    assert recipes.run_python(code, "sagemaker-v2").returncode == 1
    recipes.check(uses_gpu=False, exit_code=1)


@both
def test_sdk_v3(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    done = recipes.run_python(recipes.block("SageMaker SDK v3", "python"), "sagemaker-v3")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    recipes.check(uses_gpu=uses_gpu)


@both
def test_pipelines(recipes: Recipes, uses_gpu: bool) -> None:
    recipes.write_script(uses_gpu=uses_gpu)
    done = recipes.run_python(recipes.block("SageMaker Pipelines", "python"), "sagemaker-v3")
    assert (done.returncode == 0) is uses_gpu, done.stderr
    recipes.check(uses_gpu=uses_gpu)
