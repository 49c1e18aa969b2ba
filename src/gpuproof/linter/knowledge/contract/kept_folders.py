"""The folders of a training job that outlive its instance, and the calls of its script that may write to them.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-train-storage.html, "SageMaker AI environment variables and the
default paths for training storage locations", 2026-11-21.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterable
from typing import NamedTuple

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.container_env import CHECKPOINT_DIR, MODEL_DIR, OUTPUT_DIR, path_of
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.value_flow import Arrival, follow
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node, callee_name
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.inference_handlers import PARAMETERS
from gpuproof.linter.knowledge.contract.processing_mounts import PATH_CARRIERS, is_under

_CHECKPOINT_KEYS = ("checkpoint_s3_uri", "checkpoint_config", "CheckpointConfig")
_LOCAL_PATHS = ("checkpoint_local_path", "LocalPath", "local_path")
_KEPT_OUTPUT = tuple(
    f"{OUTPUT_DIR}/{name}" for name in ("data", "intermediate", "tensors", "tensorboard", "profiler")
)
"""Folders below `/opt/ml/output` that are uploaded: the data at the end, the others while the job runs."""
_VARIABLES = re.compile(
    r"^SM_(MODEL_DIR|OUTPUT_DIR|OUTPUT_DATA_DIR|OUTPUT_INTERMEDIATE_DIR|CHECKPOINT_DIR|TRAINING_ENV|FRAMEWORK_PARAMS)$"
)
_NAMES = re.compile(r"^(sm_)?(model_dir|output_data_dir|checkpoint_dir|model_output_dir)$", re.IGNORECASE)
_IDLE = re.compile(
    r"""
    (^|\.)(print|pprint|info|debug|warning|error|log|critical|exception|makedirs|mkdir|exists|isdir|isfile|is_dir|is_file|listdir
        |scandir|walk|glob|iglob|rglob|iterdir|stat|rmtree|remove|unlink|len|isinstance|type|repr|hash|savefig|to_csv|to_json
        |to_parquet|write_text|dumps|SummaryWriter|TensorBoard|CSVLogger|TensorBoardLogger|setdefault|ValueError|RuntimeError
        |FileNotFoundError|startswith|endswith|savetxt|imsave|imwrite|log_params|FileHandler|write|parse_args|append_text)$
    | (^|\.)(load|load_\w+|from_pretrained|read_\w+|read|open_dataset|from_file|from_saved|get_last_checkpoint|latest_checkpoint)$
    """,
    re.VERBOSE,
)
"""Calls that save no model to the folder that they receive: they print it, test it, create it, read it, or write a table."""
_READ = ("resume_from_checkpoint", "ckpt_path", "initial_checkpoint")
"""Arguments that name a checkpoint to read."""
_OWN_FILES = ("default_root_dir", "dirpath", "save_dir", "logging_dir", "log_dir")
"""Arguments that name a folder for a framework's own checkpoints and logs."""
_NO_MODEL = re.compile(r"tokenizer|processor|extractor|config", re.IGNORECASE)
"""What is saved beside a model."""
_TRANSFERS = re.compile(
    r"^(shutil\.|s3fs\.|awswrangler\.|distutils\.)|^os\.(rename|replace|link|symlink)$"
    r"|(^|\.)(upload\w*|put_object|put|log_model|log_artifacts?|log_checkpoint|push_to_hub|link_model|create_model_version)$"
    r"|^(wandb|neptune|comet_ml)\.save$|(^|\.)autolog$"
)
"""Calls that copy or upload files."""
_COMMANDS = re.compile(r"^(subprocess\.\w+|os\.(system|popen|exec\w*|spawn\w*)|sh\.\w+)$")
_MOVES_FILES = re.compile(r"\b(cp|mv|ln|rsync|aws|s3|s5cmd|gsutil|tar|zip)\b|/opt/ml")
_S3 = re.compile(r"^s3a?://")
_READS_S3 = re.compile(r"(^|\.)(read_\w+|load\w*|download\w*|glob|ls|print|info|from_\w+|open_dataset)$")


class Keeper(NamedTuple):
    """A call that may bring files to a folder that is kept.

    Attributes:
        source: the file or folder that it copies; None if it may be any.
        of_framework: whether only the checkpoints and logs that a framework writes by itself go there.
    """

    source: Value | None
    of_framework: bool = False

    def may_keep(self, path: str) -> bool:
        """Whether it may keep a file that is saved as `path`."""
        source = self.source.text if self.source is not None else None
        if source is None:
            return True
        here, there = path.removeprefix("./").rstrip("/"), source.removeprefix("./").rstrip("/")
        return there in (here, ".", "") or here.startswith(there + "/") or fnmatch.fnmatch(here, there)


def has_checkpoint_location(job: JobDefinition) -> bool:
    """Whether a job may have a checkpoint location in S3, in its description or set on it later."""
    return any(not job.argument(name).is_unset for name in _CHECKPOINT_KEYS) or _is_set_later(job)


def kept_folders(jobs: Iterable[JobDefinition]) -> list[str]:
    """The folders that SageMaker keeps after all of these jobs; without a job, those that it may keep.

    `/opt/ml/checkpoints` is uploaded only by jobs with a checkpoint location.
    """
    jobs = list(jobs)
    folders = [MODEL_DIR, *_KEPT_OUTPUT]
    if not jobs or any(job.source == "gpuproof" or has_checkpoint_location(job) for job in jobs):
        folders.append(CHECKPOINT_DIR)
    for job in jobs:
        paths = [job.argument(_LOCAL_PATHS[0])]
        paths += [job.argument(key).at(name) for key in _CHECKPOINT_KEYS[1:] for name in _LOCAL_PATHS]
        folders += [path.text.rstrip("/") for path in paths if path.text]
    return folders


def is_kept(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or in one."""
    return any(is_under(path, folder) for folder in folders)


def find_keepers(
    modules: Iterable[Module], folders: Iterable[str], launchers: Iterable[Module] = ()
) -> list[Keeper]:
    """The calls of a script that may bring a model to a folder that is kept, or upload it.

    Args:
        modules: the script and the project's modules that it imports.
        folders: the folders that are kept.
        launchers: those of the modules that also describe the job: S3 addresses and uploads there are the job's own.
    """
    modules, folders = list(modules), list(folders)
    starts = [(module, node) for module in modules for node in _mentions(module, folders)]
    found = [_keeper(arrival) for arrival in follow(modules, starts, _carries) if not _is_idle(arrival)]
    for module in modules:
        if module not in launchers:
            found += _transfers(module)
    return found


def _mentions(module: Module, folders: list[str]) -> list[ast.expr]:
    """The expressions that name a folder that is kept, but for those in inference handlers, which read it."""
    handlers = [module.functions[name] for name in PARAMETERS if name in module.functions]
    found: list[ast.expr] = []
    for node in module.nodes(ast.Constant):
        text = node.value
        if not isinstance(text, str) or isinstance(module.parent(node), ast.Expr):
            continue
        path = path_of(text) if _VARIABLES.match(text) else text
        # A variable with everything in it, or a parent of a folder, to which the rest may be added.
        is_above = _VARIABLES.match(text) is not None and any(
            folder.startswith(path or "") for folder in folders
        )
        if is_above or is_kept(path or "", folders) or any(f"{folder}/" in text for folder in folders):
            found.append(node)
    for node in module.nodes(ast.Name, ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if not isinstance(node.ctx, ast.Load) or not _NAMES.match(name):
            continue
        of_model = "checkpoint" not in name.lower()
        if (MODEL_DIR in folders or not of_model) and _may_be_kept(module, node, folders):
            found.append(node)
    return [node for node in found if not any(module.tree.is_within(node, handler) for handler in handlers)]


def _may_be_kept(module: Module, node: ast.Name | ast.Attribute, folders: list[str]) -> bool:
    """Whether a `model_dir` of unknown origin may be the folder, because nothing says otherwise."""
    parent = module.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return False
    value = evaluate(module, node)
    if value.texts:
        return any(is_kept(text, folders) for text in value.texts)
    return value.is_unknown and not value.prefix


def _carries(module: Module, call: ast.Call) -> bool:
    name = module.qualified(call.func) or callee_name(call)
    moves = _TRANSFERS.search(name) is not None or (callee_name(call) == "replace" and len(call.args) == 1)
    return not moves and PATH_CARRIERS.search(name) is not None


def _is_idle(arrival: Arrival) -> bool:
    module, _, call = arrival
    if call is None:
        return False
    name = module.qualified(call.func) or callee_name(call)
    if any(argument_node(call, keyword) is arrival.node for keyword in _READ):
        return True
    if name.rpartition(".")[2] == "open" and not name.startswith(("tarfile.", "zipfile.")):
        mode = next(
            (
                argument
                for argument in (argument_node(call, "mode", 1), argument_node(call, "mode", 0))
                if _is_mode(module, argument)
            ),
            None,
        )
        # A model is written in binary mode.
        return mode is None or "b" not in str(evaluate(module, mode).text)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "save_pretrained":
        return _NO_MODEL.search(module.text(call.func.value)) is not None
    return _IDLE.search(name) is not None


def _is_mode(module: Module, node: ast.expr | None) -> bool:
    text = evaluate(module, node).text
    return text is not None and re.fullmatch(r"[rwaxbt+]{1,3}", text) is not None


def _keeper(arrival: Arrival) -> Keeper:
    module, node, call = arrival
    if call is not None and _TRANSFERS.search(module.qualified(call.func) or ""):
        source = argument_node(call, "src", 0)
        if source is not None and source is not node:
            return Keeper(_known(evaluate(module, source)))
    of_framework = call is not None and any(argument_node(call, name) is node for name in _OWN_FILES)
    texts = evaluate(module, node).texts if of_framework and isinstance(node, ast.expr) else ()
    return Keeper(None, bool(texts) and not any(is_under(text, MODEL_DIR) for text in texts))


def _transfers(module: Module) -> list[Keeper]:
    """Calls that copy or upload files to places that are not known."""
    found: list[Keeper] = []
    for call in module.nodes(ast.Call):
        name = module.qualified(call.func) or callee_name(call)
        if _COMMANDS.search(name):
            texts = [
                item.value
                for item in ast.walk(call)
                if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
            if not texts or any(_MOVES_FILES.search(text) for text in texts):
                found.append(Keeper(None))
        elif _TRANSFERS.search(name):
            source = argument_node(call, "src", 0)
            of_file = name.startswith(("shutil.copy", "shutil.move", "os."))
            found.append(Keeper(_known(evaluate(module, source)) if of_file and source is not None else None))
    found += [
        Keeper(None)
        for node in module.nodes(ast.Constant)
        if isinstance(node.value, str) and _S3.match(node.value) and not _is_read(module, node)
    ]
    return found


def _known(value: Value) -> Value | None:
    return value if value.is_known and value.text is not None else None


def _is_read(module: Module, node: ast.Constant) -> bool:
    parent = module.parent(node)
    if isinstance(parent, ast.Expr):
        return True
    if not isinstance(parent, ast.Call):
        return False
    name = module.qualified(parent.func) or callee_name(parent)
    return _READS_S3.search(name) is not None


def _is_set_later(job: JobDefinition) -> bool:
    """Whether code sets a checkpoint location on the job: `estimator.checkpoint_s3_uri = ...`, `.with_checkpoint_config()`."""
    if job.module is None or job.call is None:
        return False
    module, made = job.module, job.call.node
    assigned = [
        node.value
        for node in module.nodes(ast.Attribute)
        if node.attr in _CHECKPOINT_KEYS and isinstance(node.ctx, ast.Store)
    ]
    chained = [call.receiver for call in calls_named(module, "with_checkpoint_config")]
    keys = [
        node.value
        for node in module.nodes(ast.Subscript)
        if isinstance(node.ctx, ast.Store) and evaluate(module, node.slice).text in _CHECKPOINT_KEYS
    ]
    targets = [module.origin(key) for key in (*assigned, *chained, *keys)]
    passed = [module.origin(keyword.value) for keyword in job.call.node.keywords]
    return any(target is made or target in passed or not isinstance(target, ast.Call) for target in targets)
