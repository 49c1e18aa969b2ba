"""The training script ends without saving a model: the job is billed, but its result is lost.

SageMaker uploads the contents of `/opt/ml/model` (`SM_MODEL_DIR`). A script that trains, prints its metrics and
returns leaves that folder empty, and `deploy()` fails afterwards because there is no `model.tar.gz`. The rule
requires a linked job and reads every module of the project that the script imports; it reports nothing if one of them
saves a model, or imports a library that might. A folder that is only declared (`--model-dir`) saves nothing.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader([]):
        loss = model(x.cuda()).sum()
        loss.backward()  # <-
        optimizer.step()
    print("done")

Bad: the folder is only declared

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import argparse
    import os
    import torch
    from torch.utils.data import DataLoader

    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader([]):
        model(x.cuda()).sum().backward()  # <-
        optimizer.step()

Bad: the Trainer's checkpoints are in the working directory

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    from datasets import load_from_disk
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    arguments = TrainingArguments(output_dir="results", num_train_epochs=3)
    trainer = Trainer(model=model, args=arguments, train_dataset=load_from_disk("data"))
    trainer.train()  # <-
    print(trainer.evaluate())

Quiet: they are in the model's folder, or on the Hub

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    HuggingFace(entry_point="hub.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import os
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    Trainer(model=model, args=TrainingArguments(os.environ["SM_MODEL_DIR"])).train()
    # file: hub.py
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    Trainer(model=model, args=TrainingArguments("reviews", push_to_hub=True)).train()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    ).fit()
    # file: train.py
    import os
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader([]):
        optimizer.zero_grad()
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth"))

Bad: only the losses and a log are written

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import numpy as np
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x in DataLoader([]):
        optimizer.zero_grad()
        loss = model(x.cuda()).sum()
        loss.backward()  # <-
        optimizer.step()
        losses.append(loss.item())
    np.save("losses.npy", losses)
    with open("log.txt", "w") as file:
        print(losses[-1], file=file)

Quiet: a benchmark only measures times

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="benchmark.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: benchmark.py
    import time
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for _ in range(10):
        model(torch.ones(8).cuda()).sum().backward()

Quiet: an unknown library may save it

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torch
    from our_loop import finish

    for _ in range(10):
        loss.backward()
    finish()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, local_function, origin_call
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.contract.kept_folders import find_keepers, kept_folders
from gpuproof.linter.knowledge.contract.processing_mounts import may_open_to_write
from gpuproof.linter.knowledge.contract.script_contract import training_jobs
from gpuproof.linter.knowledge.distribution.multi_gpu import trainer_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM102", "no-model-saved", Severity.WARNING, when="link", needs=("backward", "fit", "Trainer"))

_NO_TRAINING = re.compile(r"benchmark|profil|smoke|\btest_", re.IGNORECASE)
"""Names of files that train only to measure or to test."""
_MEASURES = re.compile(
    r"^(timeit|torch\.profiler|torch\.autograd\.profiler|torch\.utils\.benchmark|tensorflow\.profiler|cProfile)\."
    r"(?!.*\b(default_timer|record_function|Trace|server)\b)"
)
"""Profilers and timers; clocks, labels and servers that wait for requests measure nothing by themselves."""
_STARTS, _STOPS = ("start", "enable", "__enter__"), ("stop", "disable", "__exit__")
_SAVES = re.compile(
    r"save|dump|export|write|checkpoint|upload|persist|(^|\.)store|(^|[._])(copy\w*|move|put_\w+|to_disk|log_model|log_artifacts?)$"
    r"|^(mlflow|wandb|boto3|subprocess)\.|(^|\.)os\.system$",
    re.IGNORECASE,
)
_OF_MODEL = re.compile(r"model|net\b|weight|param|state|coef|layer|embed", re.IGNORECASE)
_SAVE_NOTHING = frozenset({"transformers", "datasets", "evaluate", "peft", "trl", "tokenizers"})
"""Libraries that save what the script or its Trainer tells them to."""
_NO_MODEL = re.compile(
    r"(^|\.)(get_last_checkpoint|latest_checkpoint|load_checkpoint|savefig|savetxt|imsave|dumps|copy|copy_|deepcopy|to_csv|write_text|writerow|writelines|SummaryWriter)$|^json\.dump$"
    r"|^torch\.(utils\.(tensorboard|checkpoint)|save_on_cpu)|\.set_\w*checkpoint\w*$|^sys\.std(out|err)\."
)
"""Calls of such a name that save tables, figures or logs, or nothing at all."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in training_jobs(module, project) if job.module is not module and not job.runs_others]
    trainers = trainer_runs(module) if jobs else []
    trains = _training_calls(module) or [call for call in trainers if call.module is module]
    if not jobs or not trains or _NO_TRAINING.search(module.title) or _is_measured(trains[-1]):
        return
    modules = local_modules(module)
    unseen = set(unseen_imports(module)) - (_SAVE_NOTHING if trainers else set())
    if unseen or any(_may_save(local) for local in modules):
        return
    if not all(_is_lost(call) for call in trainers) or find_keepers(modules, kept_folders(())):
        return
    yield rule.hit(
        trains[-1].span,
        f"`{module.title}` trains here but saves nothing: when {jobs[0].title} ends, the model is lost.",
        remedy='Save it: torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth")).'
        if module.imports("torch")
        else 'Save it: trainer.save_model(os.environ["SM_MODEL_DIR"]).'
        if trainers
        else 'Save it: model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1")).',
    )


def _training_calls(module: Module) -> list[Call]:
    if module.imports("torch"):
        steps = [call for call in calls_named(module, "backward") if call.receiver is not None]
        return [call for call in steps if module.loops_around(call.node) and calls_named(module, "step")]
    if module.imports("tensorflow", "keras"):
        return [call for call in calls_named(module, "fit") if call.receiver is not None]
    return []


def _is_measured(training: Call) -> bool:
    """Whether a profiler or timer runs around a call, or around a call of a function that contains it."""
    module = training.module
    if not uses(module, _MEASURES, "call", "name"):
        return False
    pending: list[ast.AST] = [training.node]
    for node in pending:
        if _is_inside_profiler(module, node) or _is_between_start_and_stop(module, node):
            return True
        function = module.function_of(node)
        if function is not None:
            pending += [call.node for call in calls_named(module, function.name) if call.node not in pending]
            if _is_passed_to_profiler(module, function.name):
                return True
    return False


def _is_inside_profiler(module: Module, node: ast.AST) -> bool:
    for ancestor in module.tree.ancestors(node):
        match ancestor:
            case ast.With(items=items) | ast.AsyncWith(items=items):
                around = [made for item in items if (made := module.origin(item.context_expr)) is not None]
            case ast.FunctionDef(decorator_list=around) | ast.AsyncFunctionDef(decorator_list=around):
                pass
            case ast.Call():
                around = [ancestor.func]
            case _:
                continue
        if uses(module, _MEASURES, "call", "name", within=around):
            return True
    return False


def _is_between_start_and_stop(module: Module, node: ast.AST) -> bool:
    """Whether the last call before a node, in its function, that starts or stops a profiler starts one."""
    function = module.function_of(node)
    before = [
        call
        for call in calls_named(module, *_STARTS, *_STOPS)
        if module.function_of(call.node) is function
        and call.node.lineno < getattr(node, "lineno", 0)
        and _is_of_profiler(call)
    ]
    return bool(before) and max(before, key=lambda call: call.node.lineno).method in _STARTS


def _is_passed_to_profiler(module: Module, function: str) -> bool:
    """Whether a profiler or timer gets a function, or the text of a statement with its name."""
    word = re.compile(rf"\b{re.escape(function)}\b")
    return any(
        _is_of_profiler(call)
        and any(word.search(module.text(given)) for given in (*call.node.args, *call.keywords.values()))
        for call in all_calls(module)
    )


def _is_of_profiler(call: Call) -> bool:
    """Whether a call is one of a profiler's module, or of an object that is made there; true for `self.profiler`."""
    if _MEASURES.search(call.name or ""):
        return True
    if call.receiver is None:
        return False
    made = origin_call(call.module, call.receiver)
    if made is None:
        return "prof" in call.module.text(call.receiver).lower()
    return _MEASURES.search(made.name or "") is not None


def _is_lost(run: Call) -> bool:
    """Whether the folder of a Trainer's checkpoints is known, and none that SageMaker keeps."""
    trainer = origin_call(run.module, run.receiver)
    arguments = origin_call(trainer.module, trainer.expression("args", 1)) if trainer is not None else None
    if arguments is None or not arguments.method.endswith(("TrainingArguments", "Config")):
        return False
    pushed = arguments.argument("push_to_hub")
    if not (pushed.is_unset or (pushed.is_known and pushed.flag is False)):
        return False
    folder = arguments.argument("output_dir", 0)
    text = folder.text if folder.is_known else None
    return text is not None and "://" not in text and (not text.startswith("/") or text.startswith("/tmp/"))  # noqa: S108


def _may_save(module: Module) -> bool:
    """Whether code of a module calls something that may save a model, or opens a file to write."""
    for call in all_calls(module):
        name = call.name or call.method
        if not _SAVES.search(name) or _NO_MODEL.search(name) or local_function(call) is not None:
            continue
        if not name.startswith("numpy.save") or _OF_MODEL.search(module.text(call.node)):
            return True
    return any(may_open_to_write(call) and _is_binary(call) for call in calls_named(module, "open"))


def _is_binary(call: Call) -> bool:
    """Whether a file may be opened in binary mode, in which models are written."""
    mode = call.argument("mode", 1 if call.receiver is None else 0)
    return not mode.texts or any("b" in text for text in mode.texts)
