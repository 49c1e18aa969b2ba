"""A model server is told to split its model over more GPUs than its container has: it exits at start-up.

vLLM's `--tensor-parallel-size`, SGLang's `--tp` and Text Generation Inference's `--num-shard` start one process per GPU of the
container, and fail without as many: "The number of required GPUs exceeds the total number of available GPUs". Pods, services
and `docker run` with a known number of GPUs are checked.
Source: https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html.

Bad: a pod

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: chat
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.6.3
          args: ["--model", "meta-llama/Llama-3.1-70B", "--tensor-parallel-size", "4"]
          resources:
            limits:
              nvidia.com/gpu: 1  # <-

Bad: docker run

    # file: serve.sh
    #!/bin/bash
    docker run --rm --gpus 2 --ipc=host vllm/vllm-openai:v0.6.3 --model Qwen/Qwen2.5-32B -tp=4  # <-

Good:

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: chat
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.6.3
          args: ["--model", "meta-llama/Llama-3.1-70B", "--tensor-parallel-size", "4"]
          resources:
            limits:
              nvidia.com/gpu: 4

Quiet: all GPUs of the machine, and several hosts by Ray

    # file: serve.sh
    #!/bin/bash
    docker run --rm --gpus all --ipc=host vllm/vllm-openai:v0.6.3 --model Qwen/Qwen2.5-32B -tp 4
    docker run --rm --gpus 2 --ipc=host vllm/vllm-openai:v0.6.3 --model a -tp 4 --distributed-executor-backend ray
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import CONTAINERS, JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.humanize import pluralize

rule = Rule("DK111", "more-shards-than-gpus", Severity.ERROR)

_OPTIONS = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp", "--num-shard", "--tensor_parallel_size")
_SERVER = re.compile(r"vllm|sglang|text-generation-inference|text-generation-launcher|(^|/)tgi")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    gpus = job.gpu_count.number
    if job.source not in ("container", *CONTAINERS) or not job.gpu_count.is_known or not gpus:
        return
    listed = [*(job.command.items or ()), *(job.argument("container").at("args").items or ())]
    words = [str(word.value) for word in listed if word.is_known]
    if not _SERVER.search(f"{job.image.text} {' '.join(words)}") or "ray" in words or "--nnodes" in words:
        return
    option, shards = _shards(words)
    if shards <= gpus:
        return
    yield rule.hit(
        job.where(job.gpu_count),
        f"`{option} {shards}` needs {shards} GPUs, but the container has {pluralize(int(gpus), 'GPU')}: the server exits at start-up.",
        remedy=f"Reserve {shards} GPUs, or write {option} {gpus}.",
    )


def _shards(words: list[str]) -> tuple[str, int]:
    """The option that splits the model, and its number; 0 without one."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        text = value if equals else following
        if name in _OPTIONS and text.isdigit():
            return name, int(text)
    return "", 0
