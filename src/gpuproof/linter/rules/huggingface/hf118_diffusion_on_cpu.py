"""The pipeline of diffusers stays on the CPU: one image takes minutes, or half precision fails there.

`from_pretrained` loads a pipeline to the CPU, whatever GPU there is. It needs `.to("cuda")`, `enable_model_cpu_offload()` or
`device_map="balanced"`. In float16, many operations do not exist on the CPU or are very slow. The rule reports pipelines that are called in a
script of a GPU job, or that are loaded in float16, and that nothing moves.

Bad:

    import torch
    from diffusers import StableDiffusionXLPipeline

    pipe = StableDiffusionXLPipeline.from_pretrained(  # <-
        "stabilityai/stable-diffusion-xl-base-1.0", torch_dtype=torch.float16
    )
    image = pipe("a lighthouse", num_inference_steps=30).images[0]

Bad: an endpoint

    # file: deploy.py
    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py", source_dir=".",
        transformers_version="4.49.0", pytorch_version="2.6.0", py_version="py312",
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    predictor.delete_endpoint()
    # file: inference.py
    from diffusers import DiffusionPipeline

    def model_fn(model_dir):
        return DiffusionPipeline.from_pretrained(model_dir)  # <-

    def predict_fn(data, pipe):
        return pipe(data["prompt"]).images[0]

Good:

    import torch
    from diffusers import StableDiffusionXLPipeline

    pipe = StableDiffusionXLPipeline.from_pretrained(
        "stabilityai/stable-diffusion-xl-base-1.0", torch_dtype=torch.float16
    ).to("cuda")
    image = pipe("a lighthouse", num_inference_steps=30).images[0]

Quiet: offloaded, and moved by a helper

    import torch
    from diffusers import FluxPipeline, StableDiffusionPipeline
    from helpers import prepare

    flux = FluxPipeline.from_pretrained("black-forest-labs/FLUX.1-schnell", torch_dtype=torch.bfloat16)
    flux.enable_model_cpu_offload()
    image = flux("a lighthouse").images[0]
    pipe = StableDiffusionPipeline.from_pretrained("stable-diffusion-v1-5/stable-diffusion-v1-5", torch_dtype=torch.float16)
    prepare(pipe)
    other = pipe("a lighthouse").images[0]
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, largest_job
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF118", "diffusion-on-cpu", Severity.ERROR, needs=("diffusers",))

_PIPELINE = re.compile(
    r"^diffusers\.(\w+\.)*(\w*Pipeline|AutoPipelineFor\w+)\.(from_pretrained|from_single_file|from_pipe)$"
)
_MOVES = (
    "to",
    "cuda",
    "enable_model_cpu_offload",
    "enable_sequential_cpu_offload",
    "enable_group_offload",
    "prepare",
)
_OWN = re.compile(r"^(enable|disable|load|unload|fuse|set|save|register|push|encode|unfuse|maybe)\w*$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module):
        return
    made = [
        call
        for call in calls_named(module, "from_pretrained", "from_single_file")
        if _PIPELINE.match(call.name or "")
    ]
    made = [call for call in made if call.argument("device_map").is_absent and not call.is_open]
    if not made:
        return
    job = largest_job(project, module)
    gpus = gpus_per_host(project, job) if job is not None else None
    if gpus == 0:
        return
    for load in made:
        half = (module.qualified(load.expression("torch_dtype")) or "") == "torch.float16"
        if not half and not gpus:
            continue
        use = _use(module, load)
        if use is not None:
            yield rule.hit(
                load.span,
                f"The pipeline stays on the CPU: nothing moves it to {_gpu(job if gpus else None)} before "
                f"`{module.text(use.node.func)}(...)`.",
                remedy='Call .to("cuda") on it, or enable_model_cpu_offload() if it does not fit.',
                severity=rule.severity if gpus else lowered(rule.severity),
            )


def _gpu(job: JobDefinition | None) -> str:
    return f"the GPU of `{job.instance_type.text}`" if job is not None and job.instance_type.text else "a GPU"


def _use(module: Module, load: Call) -> Call | None:
    """The first call that runs a pipeline, if nothing may have moved it."""
    used: Call | None = None
    for other in program_modules(module):
        for call in all_calls(other):
            if isinstance(call.node.func, (ast.Name, ast.Attribute)) and _is(other, call.node.func, load):
                used = used or (call if other is module else None)
            if call.receiver is not None and _is(other, call.receiver, load):
                if call.method in _MOVES or not _OWN.match(call.method):
                    return None
            elif any(_is(other, given, load) for given in (*call.node.args, *call.keywords.values())):
                # A helper may move it.
                return None
    return used


def _is(module: Module, node: ast.expr, load: Call) -> bool:
    """Whether an expression is the pipeline that a call loads."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
        return False
    if node is load.node:
        return True
    if isinstance(node, ast.Call) or (isinstance(node, ast.Attribute) and not _may_hold(node)):
        return False
    return any(made.node is load.node for made in creations(module, node))


def _may_hold(node: ast.Attribute) -> bool:
    """Whether an attribute may be a pipeline: `self.pipe`."""
    return isinstance(node.value, ast.Name) and node.value.id == "self"
