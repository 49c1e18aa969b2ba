"""The commands of Makefiles and Dockerfiles."""

from gpuproof.linter.jobs.commands.files import image, recipe


def test_a_recipe_contains_those_of_what_the_target_needs() -> None:
    text = "PY ?= python\nall: train\ndata:\n\t@$(PY) get.py\ntrain: data ## fit\n\t$(PY) train.py \\\n\t  --n $$N\nother:\n\tpython other.py\n"
    shell = recipe(text, ())
    assert shell is not None
    assert [line for line in shell.split("\n") if line] == ["python get.py", "python train.py  --n $N"]


def test_variables_on_the_command_line_of_make_count() -> None:
    assert "python b.py" in (recipe("S := a.py\nrun:\n\tpython $(S)\n", ("run", "S=b.py")) or "")


def test_a_dockerfile_runs_its_last_stage() -> None:
    made = image(
        'FROM x AS build\nCMD ["a"]\nFROM y\nWORKDIR /app\nENV A=1 B="two words"\nCOPY src/ .\n'
        'ENTRYPOINT ["python", "train.py"]\nCMD ["--x", "1"]\n'
    )
    assert (made.command, made.line, made.folder) == ("python train.py --x 1", 7, "/app")
    assert made.environment == {"A": "1", "B": "two words"}
    assert made.sources("train.py") == ["src/train.py"]


def test_cmd_is_ignored_after_an_entry_point_in_shell_form() -> None:
    assert image('FROM x\nENTRYPOINT python a.py\nCMD ["b"]\n').command == "python a.py"


def test_an_image_without_a_program_has_no_command() -> None:
    assert image("FROM x\nRUN pip install y\n").command is None
