"""A settings file that the script or launcher loads does not parse: loading it raises an exception.

YAML forbids tabs as indentation and JSON a comma after the last entry. On SageMaker, the script fails after the instance
has started and the image is pulled.

Bad:

    # file: train.py
    import json

    with open("settings.json") as file:
        settings = json.load(file)  # <-
    # file: settings.json
    {
      "epochs": 3,
      "lr": 0.1,
    }

Good:

    # file: train.py
    import json

    with open("settings.json") as file:
        settings = json.load(file)
    # file: settings.json
    {
      "epochs": 3,
      "lr": 0.1
    }

Bad: YAML

    # file: launch.py
    import yaml
    from sagemaker.pytorch import PyTorch

    config = yaml.safe_load(open("config/job.yaml"))  # <-
    PyTorch(entry_point="train.py", instance_type=config["instance_type"])
    # file: config/job.yaml
    instance_type: ml.g5.xlarge
      epochs: 3

Quiet: a template of another tool

    # file: train.py
    import yaml

    with open("config.yaml") as file:
        text = file.read().replace("{{ lr }}", "0.1")
    settings = yaml.safe_load(text)
    # file: config.yaml
    lr: {{ lr }}
    epochs: {{ epochs }
"""

from functools import partial

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.evaluation.settings_files import loaded_file
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.templates.problems import text_problem

rule = Rule("E904", "settings-file-broken", Severity.ERROR, needs=("load",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in all_calls(module):
        if call.method not in ("safe_load", "load", "loads", "full_load"):
            continue
        found = loaded_file(module, call.node, call.name or "", partial(evaluate, module))
        if found is None:
            continue
        unit, kind, is_certain = found
        problem = text_problem(unit, kind) if kind in ("yaml", "json") else None
        if problem is not None:
            yield rule.hit(
                call.span,
                f"`{unit.path.rpartition('/')[2]}`, line {problem[0]}: {problem[1]}. This call raises an exception.",
                remedy="Correct the file.",
                severity=rule.severity if is_certain else lowered(rule.severity),
            )
