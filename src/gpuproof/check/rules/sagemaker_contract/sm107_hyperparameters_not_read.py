"""The job passes hyperparameters, but the script reads neither its arguments nor the variables that contain them.

The learning rate or number of epochs in the job has no effect: the script uses the values written in it, and a tuning
job that searches over them repeats the same run. The rule requires the linked script and all modules of the project
that it imports, and reports nothing if an unknown library might read them.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    estimator = TensorFlow(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"epochs": 50, "batch_size": 32},  # <-
    )
    estimator.fit()
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit([], [], epochs=5)

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50}).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args, _ = parser.parse_known_args()

Quiet: the script reads the toolkit's variable

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50}).fit()
    # file: train.py
    import json
    import os

    settings = json.loads(os.environ["SM_HPS"])

Quiet: an unknown module may read them

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50}).fit()
    # file: train.py
    from our_training import main

    main()
"""

import re

from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.knowledge.script_contract import (
    hidden_imports,
    passed_hyperparameters,
    receives_hyperparameters,
    source_text,
)
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.findings import Severity

rule = Rule("SM107", "hyperparameters-not-read", Severity.WARNING, when="link")

_READERS = re.compile(
    r"""
    \bargv\b | argparse | ArgumentParser | ArgParser | \bclick\b | \btyper\b | \bfire\b | \babsl\b | docopt | optparse
    | getopt | \btyro\b | hydra | omegaconf | jsonargparse | simple_parsing | \bCLI\b | LightningCLI | app\.flags
    | tf\.flags | SM_HP | SM_USER_ARGS | SM_TRAINING_ENV | hyperparameters | /opt/ml/input/config | SM_INPUT_CONFIG
    | sagemaker_containers | sagemaker_training | environ\.items | environ\.copy | dict\(os\.environ | vars\(os
    | \bplac\b | \btap\b | configargparse | DataclassArg | cli\(
    """,
    re.VERBOSE,
)
"""If any of these occurs in a script, it may read the hyperparameters."""


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    names = list(passed_hyperparameters(job))
    if script is None or not names or not receives_hyperparameters(job) or not job.hyperparameters.is_known:
        return
    if script is job.module or _READERS.search(source_text(script)) or hidden_imports(script):
        return
    listed = ", ".join(f"`{name}`" for name in names[:4]) + (" and more" if len(names) > 4 else "")
    yield rule.hit(
        job.where(job.hyperparameters),
        f"The job passes {listed}, but `{job.script_title}` never reads its arguments: they have no effect.",
        remedy=f'Declare them in the script: parser.add_argument("--{names[0]}", ...) and '
        "args, _ = parser.parse_known_args().",
    )
