"""Comments, docstrings, parameter names and unrelated functions of a file do not silence a rule."""

import contextlib
import json
import re
import tempfile
from pathlib import Path

import pytest

from gpuproof.linter.docs.examples import Example, read_documentation
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection, all_rules
from gpuproof.linter.rule import Rule

pytestmark = pytest.mark.slow

WORDS = """
accelerate accelerator accum all_gather all_reduce allreduce amp apex argparse argv autocast autograd backward benchmark boto3
broadcast callback capture checkpoint checkpoint_s3_uri checkpoint_config CheckpointConfig cleanup clean_up click closure
collate_fn compat.v1 copytree copy2 cpu .cpu() cuda CUDA_VISIBLE_DEVICES create_graph curl current_host DataParallel DDP
deepspeed delete_endpoint delete-endpoint detach device device_count device_ids device_map distributed DistributedDataParallel
DistributedSampler download dump EstimatorSpec eval .eval() export float16 fp16 fsdp generate getenv gpu GPU grad .grad
grad_enabled grad_fn GradScaler HfArgumentParser higher hook horovod hosts hvd hyperparameters importlib inference_mode
is_available is_nccl_available jit jit.load keras lightning local_rank LOCAL_RANK manual_seed map_location mlflow mock model_dir
MODEL_DIR model_path module. multiprocessing MultiWorkerMirroredStrategy nccl no_cuda no_grad noqa_not num_gpus num_workers offload onnx
/opt/ml/model /opt/ml/input /opt/ml/checkpoints os.environ os.system parallel_state persist pipeline perf_counter prefetch
processingjobconfig profile put_object rank read REMAINDER removeprefix reqparse requires_grad resourceconfig retain_graph rpc s3://bucket
save set_device set_epoch set_grad_enabled(False) set_visible_devices shap lime shard ShardedByS3Key SM_CHANNEL_TRAIN
SM_CURRENT_HOST SM_HOSTS SM_HP_X SM_MODEL_DIR SM_NUM_GPUS smdistributed spawn .step( store Strategy subprocess sys.argv sys.path
tape teardown test_ tf.__version__ tf.contrib tf.distribute tf.estimator TF_CONFIG tf_keras tensorflow==1 timeit torch.distributed torch_dtype torch.device
torchrun TorchScript torchscript Trainer train_step training transformers unscale upload urlretrieve use_cuda wandb warmup
wget workers world_size write xla yield zero_grad zero_grad() %store register_scalable_target application-autoscaling
"""

PARAMETERS = ", ".join(
    dict.fromkeys(word for word in WORDS.split() if word.isidentifier() and word != "yield")
)

UNRELATED = """
def _unrelated(tensor, other, optimizer, scaler, loader, path):
    import torch

    with torch.no_grad():
        other.eval()
    optimizer.zero_grad()
    scaler.unscale_(optimizer)
    other.register_forward_hook(print)
    other.requires_grad_(False)
    loader.collate_fn = None
    torch.load(path, map_location="cpu")
    torch.autograd.grad(tensor, other)
    return tensor.cpu().half().detach().numpy(), other.from_pretrained(path), other.training, tensor.grad, torch.jit.load(path)
"""

NOISE = "".join(
    (
        *(f"# {line}\n" for line in WORDS.strip().splitlines()),
        f'def _documented():\n    """{WORDS}"""\n',
        f"def _parameters({PARAMETERS}):\n    pass\n",
        f'"""{WORDS}"""\n',
    )
)
"""A comment, a docstring, parameters that are not used, and a text that is not used."""

EXAMPLES = [
    (rule, example)
    for rule in all_rules()
    for example in read_documentation(rule.doc).examples
    if example.kind == "Bad" and any(name.endswith((".py", ".ipynb")) for name in example.files)
]


def add_noise(name: str, text: str, noise: str) -> str:
    if name.endswith(".py"):
        return f"{text}\n\n{noise}"
    if name.endswith(".ipynb"):
        notebook = json.loads(text)
        notebook["cells"].append({**notebook["cells"][0], "source": noise})
        return json.dumps(notebook)
    return text


def add_docstrings(name: str, text: str) -> str:
    if not name.endswith(".py"):
        return text
    words = " ".join(WORDS.split())
    return re.sub(
        r"^( *)def .*:\n(?= )",
        lambda match: f'{match[0]}{match[1]}    """{words}"""\n',
        text,
        flags=re.MULTILINE,
    )


def findings(rule: Rule, files: dict[str, str]) -> list[str]:
    """The lines with findings in a folder with these files alone, sorted."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        report = check_paths(["."], CheckOptions(Selection(select=(rule.code,))))
        return sorted(f"{hit.span.unit.path}: {hit.span.text.strip()}" for hit in report.hits)


def test_words_outside_the_code_do_not_silence_a_rule() -> None:
    assert _silenced(EXAMPLES, NOISE) == []


def test_docstrings_of_the_functions_in_question_do_not_change_the_findings() -> None:
    changed = []
    examples = [pair for pair in EXAMPLES if any("def " in text for text in pair[1].files.values())]
    for rule, example in examples:
        noisy = {name: add_docstrings(name, text) for name, text in example.files.items()}
        if findings(rule, noisy) != findings(rule, example.files):
            changed.append(f"{rule.code}: {example.title}")
    assert examples
    assert changed == []


def test_calls_in_an_unrelated_function_do_not_silence_a_rule() -> None:
    examples = [
        (rule, example)
        for rule, example in EXAMPLES
        if rule.code.startswith(("PF", "PT")) and any("torch" in text for text in example.files.values())
    ]
    assert examples
    assert _silenced(examples, UNRELATED) == []


def _silenced(examples: list[tuple[Rule, Example]], noise: str) -> list[str]:
    """The examples that have fewer findings when something stands below their code."""
    silenced = []
    for rule, example in examples:
        noisy = {name: add_noise(name, text, noise) for name, text in example.files.items()}
        if missing := set(findings(rule, example.files)) - set(findings(rule, noisy)):
            silenced.append(f"{rule.code}: {example.title}: {missing}")
    return silenced
