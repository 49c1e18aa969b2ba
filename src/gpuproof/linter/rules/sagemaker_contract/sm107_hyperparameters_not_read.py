"""The job passes hyperparameters, but the script reads neither its arguments nor the variables that contain them.

The learning rate or number of epochs in the job has no effect: the script uses the values written in it, and a tuning
job that searches over them repeats the same run. The rule requires the linked script and all modules of the project
that it imports, and reports nothing if an unknown library might read them. An argument that is parsed and never used
has no effect either.

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

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args, _ = parser.parse_known_args()
    for epoch in range(args.epochs):
        print(epoch)

Quiet: the script reads the toolkit's variable

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50}).fit()
    # file: train.py
    import json
    import os

    settings = json.loads(os.environ["SM_HPS"])

Bad: the script parses it and never uses it

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        hyperparameters={"epochs": 50, "batch-size": 32},  # <-
    ).fit()
    # file: train.py
    import argparse
    import tensorflow as tf

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit([], [], epochs=5, batch_size=args.batch_size)

Bad: parse_known_args swallows a name that is not declared

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        hyperparameters={
            "epochs": 50,
            "learning_rate": 0.01,  # <-
        },
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    args, _ = parser.parse_known_args()
    print(args.epochs, args.lr)

Quiet: the script uses the rest

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50, "learning_rate": 0.01},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args, rest = parser.parse_known_args()
    print(args.epochs, dict(zip(rest[::2], rest[1::2])))

Bad: the learning rate is written out where the parsed one belongs

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50, "lr": 0.01}).fit()  # <-
    # file: train.py
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        model.train()
        for x, y in torch.utils.data.DataLoader([], num_workers=4):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        model.eval()

Quiet: an unknown module may read them

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50}).fit()
    # file: train.py
    from our_training import main

    main()

Bad: a command gets no hyperparameters

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="python fit.py --data s3"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
        hyperparameters={"epochs": 25},  # <-
    )
    # file: src/fit.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--data")
    args = parser.parse_args()

Quiet: the command passes them itself

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="python fit.py --epochs $SM_HP_EPOCHS"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
        hyperparameters={"epochs": 25},
    )
    # file: src/fit.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()

Quiet: the script reads them from SM_HPS

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="torchrun --nproc_per_node=gpu fit.py"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
        hyperparameters={"epochs": 25},
    )
    # file: src/fit.py
    import json
    import os

    epochs = json.loads(os.environ["SM_HPS"])["epochs"]
"""

from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.arguments import flag_of, passed_hyperparameters, receives_hyperparameters
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.hyperparameter_reads import (
    parsed_in_vain,
    reads_command_line_anyhow,
    reads_elsewhere,
    uses_rest,
    variables_read,
)
from gpuproof.linter.knowledge.contract.script_arguments import script_arguments
from gpuproof.linter.knowledge.contract.script_contract import hidden_imports
from gpuproof.linter.knowledge.distribution.multi_gpu import trains_model
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM107", "hyperparameters-not-read", Severity.WARNING, when="link")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    if script is None or script is job.module or not job.hyperparameters.is_known:
        return
    names = list(passed_hyperparameters(job))
    if not names or hidden_imports(script) or reads_elsewhere(script):
        return
    variables = variables_read(script)
    names = [name for name in names if name.replace("-", "_").upper() not in variables]
    if _passes_none(job):
        yield from _unpassed(job, names)
    elif names and receives_hyperparameters(job) and not job.runs_others and not _calls_train(script):
        yield from _unread(job, script, names)


def _unread(job: JobDefinition, script: Module, names: list[str]) -> Hits:
    if not reads_command_line_anyhow(script):
        yield rule.hit(
            job.where(job.hyperparameters),
            f"The job passes {_listed(names)}, but `{job.script_title}` never reads its arguments: they have no effect.",
            remedy=f'Declare them in the script: parser.add_argument("--{names[0]}", ...) and '
            "args, _ = parser.parse_known_args().",
        )
        return
    yield from _swallowed(job, script, names)
    unused = parsed_in_vain(script, names) if trains_model(script) else []
    if unused:
        name = unused[0].replace("-", "_")
        yield rule.hit(
            job.where(job.hyperparameters),
            f"The job passes {_listed(unused)}, which `{job.script_title}` parses and never uses: {'it has' if len(unused) == 1 else 'they have'} no effect.",
            remedy=f"Use args.{name} in the script where the value is written out.",
        )


def _swallowed(job: JobDefinition, script: Module, names: list[str]) -> Hits:
    """Hyperparameters that the parser does not declare, and that `parse_known_args` drops."""
    accepted = script_arguments(script)
    if accepted is None or accepted.strict or not accepted.complete or uses_rest(script):
        return
    unknown = [name for name in names if accepted.find(flag_of(name)) is None]
    if not unknown:
        return
    flags = [flag for argument in accepted.arguments for flag in argument.names]
    near = get_close_matches(flag_of(unknown[0]), flags, 1, 0.6)
    dropped = "drops it, and it has" if len(unknown) == 1 else "drops them, and they have"
    yield rule.hit(
        job.where(job.hyperparameters.at(unknown[0]), job.hyperparameters),
        f"The job passes {_listed(unknown)}, which `{job.script_title}` does not declare: parse_known_args() "
        f"{dropped} no effect.",
        remedy=f"Pass it as {near[0].lstrip('-')}."
        if near
        else f'Declare it: parser.add_argument("--{unknown[0]}", ...).',
    )


def _passes_none(job: JobDefinition) -> bool:
    """Whether a command of the job certainly starts the script without its hyperparameters."""
    if job.kind != "training" or not job.has_contract or job.start is None or job.passes_arguments:
        return False
    return not any("$" in word for word in job.start.arguments)


def _unpassed(job: JobDefinition, names: list[str]) -> Hits:
    assert job.start is not None
    given = {word.lstrip("-").partition("=")[0] for word in job.start.arguments}
    names = [name for name in names if name not in given and name.replace("_", "-") not in given]
    if not names:
        return
    by = "The command" if not job.command.is_absent else f"`{job.entry_point.text}`"
    yield rule.hit(
        job.where(job.hyperparameters),
        f"{by} passes no hyperparameters as arguments, and `{job.script_title}` does not read them elsewhere: "
        f"{_listed(names)} {'has' if len(names) == 1 else 'have'} no effect.",
        remedy=f'Write them into the command (--{names[0]} "$SM_HP_{names[0].upper()}"), or read '
        'json.loads(os.environ["SM_HPS"]) in the script.'
        if not job.command.is_absent
        else 'Pass them on in the shell script: python train.py "$@".',
    )


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:4]) + (" and more" if len(names) > 4 else "")


def _calls_train(script: Module) -> bool:
    """Whether it is a script for the first MXNet and Chainer containers, which called `train(hyperparameters, ...)`."""
    function = script.functions.get("train")
    return function is not None and any(
        argument.arg in ("hyperparameters", "hps") for argument in function.args.args
    )
