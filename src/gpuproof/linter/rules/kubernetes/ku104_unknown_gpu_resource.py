"""The limit has a name that no device plugin offers, or is not under `limits`: the container gets no GPU.

NVIDIA's plugin offers `nvidia.com/gpu`. `nvidia.com/gpus` or `gpu` is a resource that no node has, so that the pod stays
Pending; `alpha.kubernetes.io/nvidia-gpu` is gone since Kubernetes 1.11; and directly under `resources` the name is an unknown
field, which the server drops or rejects. Source: https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/.

Bad: another name

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpus: 1  # <-

Bad: not a limit

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            nvidia.com/gpu: 1  # <-

Good:

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu: 1

Quiet: other devices, shared GPUs, and MIG

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu.shared: 1
              nvidia.com/mig-1g.5gb: 1
              amd.com/gpu: 1
              aws.amazon.com/neuron: 1
              vpc.amazonaws.com/efa: 1
"""

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import GPU, pods, span_of

rule = Rule("KU104", "unknown-gpu-resource", Severity.ERROR, kinds=("kubernetes",))

_WRONG = frozenset(
    [
        "gpu",
        "gpus",
        "nvidia-gpu",
        "nvidia/gpu",
        "nvidia.com/gpus",
        "nvidia.com/GPU",
        "nvidia.com/gpu-count",
        "nvidia.com/cuda",
        "nvidia/gpus",
        "alpha.kubernetes.io/nvidia-gpu",
        "k8s.amazonaws.com/gpu",
        "aws.amazon.com/gpu",
        "accelerator.nvidia.com/gpu",
    ]
)


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if "gpu" not in unit.source.lower():
        return
    for pod in pods(unit):
        for container in pod.containers:
            resources = container.at("resources")
            for kind in ("limits", "requests"):
                for name, value in resources.at(kind).parts.items():
                    if name in _WRONG:
                        yield rule.hit(
                            value.span or span_of(pod, unit),
                            f"{pod.title}: no node has the resource `{name}`: the pod stays Pending.",
                            remedy=f"Write {GPU}.",
                        )
            if GPU in resources.parts:
                yield rule.hit(
                    resources.at(GPU).span or span_of(pod, unit),
                    f"{pod.title}: `{GPU}` is directly under `resources`, where it is not a limit: no GPU is reserved.",
                    remedy="Move it under `limits`.",
                )
