"""The model does not fit the GPU of its instance in the dtype that it is loaded in.

The weights take the number of parameters times the bytes of the dtype: a model with 70 billion parameters 141 GB in bfloat16, and twice as
much in float32, the default of `from_pretrained` before transformers 5. Training all of them with AdamW takes four times that: weights, gradients, and two states each. The job downloads the model for many minutes, and then fails with "CUDA out of memory". With
`device_map="auto"`, what does not fit is computed from the memory of the host, dozens of times slower. Sizes are from the model cards, or
as the model's name says; quantization, FSDP and DeepSpeed are taken into account, and LoRA counts the weights only.

Bad:

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.4xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-70B", torch_dtype=torch.bfloat16).to("cuda")  # <-
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM"))

Bad: all parameters are trained

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.2xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import os
    import torch
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    from data import dataset

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B-Instruct", torch_dtype=torch.bfloat16)  # <-
    trainer = SFTTrainer(model=model, args=SFTConfig(os.environ["SM_MODEL_DIR"]), train_dataset=dataset)
    trainer.train()

Bad: an endpoint

    from sagemaker.huggingface import HuggingFaceModel, get_huggingface_llm_image_uri

    model = HuggingFaceModel(
        image_uri=get_huggingface_llm_image_uri("huggingface", version="3.0.1"),
        env={"HF_MODEL_ID": "mistralai/Mixtral-8x7B-Instruct-v0.1", "SM_NUM_GPUS": "1", "HF_TOKEN": "token"},
        role="role",
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.2xlarge")  # <-
    predictor.delete_endpoint()

Bad: vLLM on one of the GPUs

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="generate.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge",
        framework_version="2.6", py_version="py312",
    ).fit()
    # file: generate.py
    from vllm import LLM

    model = LLM(model="Qwen/Qwen2.5-32B-Instruct", max_model_len=4096)  # <-

Good: four bits

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.2xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: train.py
    import os
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    from trl import SFTConfig, SFTTrainer
    from data import dataset

    quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B-Instruct", quantization_config=quantization)
    trainer = SFTTrainer(
        model=model, args=SFTConfig(os.environ["SM_MODEL_DIR"]), train_dataset=dataset, peft_config=LoraConfig(r=8)
    )
    trainer.train()
    trainer.save_model(os.environ["SM_MODEL_DIR"])

Quiet: spread over the GPUs of the host

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="generate.py", role="role", instance_count=1, instance_type="ml.p4d.24xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    ).fit()
    # file: generate.py
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        "meta-llama/Llama-3.1-70B", torch_dtype=torch.bfloat16, device_map="auto"
    )

Quiet: sharded by FSDP

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.48xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
        distribution={"torch_distributed": {"enabled": True}},
    ).fit()
    # file: train.py
    import os
    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import dataset

    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", torch_dtype=torch.bfloat16)
    arguments = TrainingArguments(os.environ["SM_MODEL_DIR"], fsdp="full_shard auto_wrap", dataloader_num_workers=2)
    Trainer(model=model, args=arguments, train_dataset=dataset).train()
"""

import re

from gpuproof.catalogue.model import Instance
from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.trainers.huggingface import TrainerCall, arguments_of, trainer_calls
from gpuproof.linter.knowledge.trainers.language_models import Load, loads, model_size
from gpuproof.linter.knowledge.trainers.serving import served_model, serves_quantized, shards
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF110", "model-exceeds-gpu", Severity.ERROR, needs=("from_pretrained", "pipeline", "vllm"))

_SHARDS = re.compile(
    r"deepspeed|fsdp|FullyShardedDataParallel|fully_shard|tensor_parallel|smp\b|modelparallel|offload",
    re.IGNORECASE,
)
_FEWER = re.compile(r"peft|lora|freeze|requires_grad|galore|adapter|prompt_tuning", re.IGNORECASE)
_ADAM = frozenset({"adamw_torch", "adamw_torch_fused", "adamw_hf"})
_TRAINED = 4
"""Weights, gradients and two states of AdamW, each of the size of the weights."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [
        job
        for job in project.jobs_running(module)
        if job.script is not None and _gpu(job, project) is not None
    ]
    if not jobs or len(jobs) != len(project.jobs_running(module)):
        return
    found = loads(module, project)
    if not found or any(_is_sharded(job) for job in jobs):
        return
    roomiest = max(jobs, key=lambda job: _memory(job, project, spread=True))
    assert roomiest.script is not None
    modules = [module, *(local for local in local_modules(roomiest.script) if local is not module)]
    for load in found:
        trainer = next(filter(None, (_trainer_of(local, load) for local in modules)), None)
        if trainer is None and not any(_is_placed(local, load) for local in modules):
            continue
        times = _TRAINED if trainer is not None and _trains_all(modules, trainer, load) else 1
        needed = load.size.parameters * load.bytes_each * times
        memory = _memory(roomiest, project, spread=load.spread)
        if needed <= memory:
            continue
        instance = _gpu(roomiest, project)
        assert instance is not None
        is_sure = load.name.is_known and (times > 1 or not load.spread)
        yield rule.hit(
            load.call.span,
            f"`{load.name.text}` has {load.size.text}: {_gigabytes(needed)} in {load.dtype}"
            f"{' with gradients and AdamW' if times > 1 else ''}, and {_room(instance, load.spread)}.",
            remedy=_remedy(load, times),
            severity=rule.severity if is_sure else lowered(rule.severity),
        )


@rule.job
def check_endpoint(job: JobDefinition, project: Project) -> Hits:
    if job.kind != "endpoint":
        return
    name = served_model(job)
    instance = _gpu(job, project)
    if name is None or instance is None or not name.text or serves_quantized(job):
        return
    size, count = model_size(name.text), shards(job, instance.gpu_count)
    if size is None or count is None:
        return
    needed, memory = size.parameters * 2, instance.gpu_memory * min(count, instance.gpu_count)
    if needed <= memory:
        return
    yield rule.hit(
        job.where(job.instance_type),
        f"`{name.text}` has {size.text}: {_gigabytes(needed)} in half precision, and {_room(instance, count > 1)}.",
        remedy="Use an instance with more GPU memory and SM_NUM_GPUS for all its GPUs, or a quantized model.",
        severity=rule.severity if name.is_known and job.instance_type.is_known else lowered(rule.severity),
    )


def _gpu(job: JobDefinition, project: Project) -> Instance | None:
    instance = find_instance(project, job.instance_type)
    return instance if instance is not None and instance.gpu_count and instance.gpu_memory else None


def _memory(job: JobDefinition, project: Project, *, spread: bool) -> int:
    instance = _gpu(job, project)
    assert instance is not None
    return instance.gpu_memory * (instance.gpu_count if spread else 1)


def _is_sharded(job: JobDefinition) -> bool:
    """Whether the script or the job may shard the model."""
    assert job.script is not None
    return (
        any(uses(local, _SHARDS, "name", "call", "keyword", "string") for local in local_modules(job.script))
        or any(_SHARDS.search(str(key)) for key in (*job.distribution.parts, *job.hyperparameters.parts))
        or job.hyperparameters.is_unknown
    )


def _trainer_of(module: Module, load: Load) -> TrainerCall | None:
    """The Trainer that gets a model, which moves it to the GPU."""
    for trainer in trainer_calls(module):
        given = trainer.call.expression("model", 0)
        made = creations(module, given) if given is not None else []
        if any(_creates(module, call.node, load) for call in made):
            return trainer
    return None


def _creates(module: Module, node: object, load: Load) -> bool:
    """Whether a call loads a model, or wraps it for PEFT."""
    for _ in range(4):
        if node is load.call.node:
            return True
        call = origin_call(module, node)  # pyright: ignore[reportArgumentType]
        if (
            call is None
            or call.method not in ("get_peft_model", "prepare_model_for_kbit_training")
            or not call.node.args
        ):
            return False
        inner = creations(module, call.node.args[0])
        node = inner[0].node if len(inner) == 1 else None
    return False


def _is_placed(module: Module, load: Load) -> bool:
    """Whether a model certainly goes to a GPU: by `device_map`, `.to("cuda")` or `.cuda()`."""
    if load.call.method in ("pipeline", "LLM"):
        return True
    placed = load.call.argument("device_map")
    if not placed.is_absent:
        return (
            placed.text in ("auto", "cuda", "cuda:0", "balanced", "sequential") or placed.entries is not None
        )
    return any(
        call.receiver is not None
        and any(made.node is load.call.node for made in creations(module, call.receiver))
        for call in calls_named(module, "to", "cuda")
        if call.method == "cuda"
        or "cuda" in module.text(module.origin(call.expression("device", 0)) or call.node)
    )


def _trains_all(modules: list[Module], trainer: TrainerCall, load: Load) -> bool:
    """Whether a Trainer certainly trains all parameters with AdamW."""
    if load.bytes_each < 2 or trainer.own is not None or trainer.call.is_open:
        return False
    if any(uses(local, _FEWER, "name", "call", "keyword", "attribute") for local in modules):
        return False
    arguments = arguments_of(trainer)
    if arguments is None or "optimizers" in trainer.call.keywords:
        return False
    optimizer = arguments.get("optim")
    return optimizer.is_absent or optimizer.text in _ADAM


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.0f} GB"


def _room(instance: Instance, spread: bool) -> str:
    each = _gigabytes(instance.gpu_memory)
    if instance.gpu_count == 1:
        return f"the GPU of `{instance.name}` has {each}"
    return f"`{instance.name}` has {instance.gpu_count} GPUs with {each} each{'' if spread else ', of which it uses one'}"


def _remedy(load: Load, times: int) -> str:
    if times > 1:
        return 'Train with LoRA (peft_config=), shard with fsdp="full_shard auto_wrap", or use a larger GPU.'
    if load.dtype == "float32":
        return (
            "Load it with torch_dtype=torch.bfloat16, in four bits (BitsAndBytesConfig), or on a larger GPU."
        )
    if load.spread:
        return "Use an instance with more GPU memory, or load it in four bits (BitsAndBytesConfig)."
    return 'Use an instance with more GPU memory, device_map="auto" on several GPUs, or four bits (BitsAndBytesConfig).'
