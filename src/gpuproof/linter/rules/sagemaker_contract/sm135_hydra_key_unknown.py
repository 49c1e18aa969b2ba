"""A command overrides a setting that the script's Hydra configuration does not have: Hydra ends the job.

`train.py optimiser.lr=0.1` without `optimiser` in the configuration is an error: "Could not override 'optimiser.lr'. Key
'optimiser' is not in struct". A key that is new needs a plus: `+trainer.max_epochs=3`. Source:
https://hydra.cc/docs/advanced/override_grammar/basic/.

Bad:

    # file: run.sh
    #!/bin/bash
    #SBATCH --gres=gpu:1
    srun python train.py optimiser.lr=0.0005 trainer.epochs=60  # <-
    # file: train.py
    import hydra

    @hydra.main(version_base=None, config_path="conf", config_name="config")
    def main(cfg):
        print(cfg.optimizer.lr, cfg.trainer.epochs)

    if __name__ == "__main__":
        main()
    # file: conf/config.yaml
    optimizer:
      lr: 0.001
    trainer:
      epochs: 100

Good:

    # file: run.sh
    #!/bin/bash
    #SBATCH --gres=gpu:1
    srun python train.py optimizer.lr=0.0005 +trainer.precision=16
    # file: train.py
    import hydra

    @hydra.main(version_base=None, config_path="conf", config_name="config")
    def main(cfg):
        print(cfg.optimizer.lr)

    if __name__ == "__main__":
        main()
    # file: conf/config.yaml
    optimizer:
      lr: 0.001
    trainer:
      epochs: 100

Quiet: a group of configurations, and Hydra's own settings

    # file: run.sh
    #!/bin/bash
    #SBATCH --gres=gpu:1
    srun python train.py model=large model.depth=50 hydra.run.dir=outputs
    # file: train.py
    import hydra

    @hydra.main(version_base=None, config_path="conf", config_name="config")
    def main(cfg):
        print(cfg.model.depth)

    if __name__ == "__main__":
        main()
    # file: conf/config.yaml
    defaults:
      - model: small
    # file: conf/model/small.yaml
    depth: 18
    # file: conf/model/large.yaml
    depth: 34
"""

from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.evaluation.hydra_files import composed, hydra_files, is_group, read_overrides
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM135", "hydra-key-unknown", Severity.ERROR, when="link")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    if script is None or job.start is None or job.passes_arguments or not script.imports("hydra"):
        return
    found = [hydra_files(script, function) for function in script.functions.values()]
    files = next((item for item in found if item is not None), None)
    overrides = read_overrides(job.start.arguments)
    # Options choose another configuration, and variables another key.
    if files is None or overrides is None or any("$" in word for word in job.start.arguments):
        return
    groups = {item.key: item.value or "" for item in overrides if is_group(files, item.key)}
    settings = composed(script, files, groups)
    for item in overrides:
        names = item.key.split(".")
        is_plain = not item.prefix and item.value is not None and all(map(str.isidentifier, names))
        if not is_plain or item.key in groups or names[0] == "hydra":
            continue
        problem = _missing(settings, names)
        if problem is not None:
            missing, near = problem
            meant = f" (it has {near})" if near else ""
            word = f"{item.key}={item.value}"
            is_text = job.source in ("command", "slurm")
            yield rule.hit(
                job.span.unit.span(job.start.line) if is_text else job.where(job.command),
                f"`{word}` overrides `{missing}`, which the settings of `{job.script_title}` do not have{meant}: Hydra "
                "ends the job.",
                remedy=f"Use {near}, or +{word} for a new key."
                if near
                else f"Add a new key with a plus: +{word}.",
            )


def _missing(settings: Value, names: list[str]) -> tuple[str, str] | None:
    """The first of the names that the settings certainly lack, and the nearest name that they have."""
    value = settings
    for index, name in enumerate(names):
        entries = value.entries
        if entries is None or not entries.complete:
            return None
        if name not in entries:
            near = get_close_matches(name, list(map(str, entries)), 1, 0.6)
            return ".".join(names[: index + 1]), near[0] if near else ""
        value = entries[name]
    return None
