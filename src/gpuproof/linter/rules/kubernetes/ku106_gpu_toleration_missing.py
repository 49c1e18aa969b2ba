"""A pod with a GPU tolerates no taint of GPU nodes; where these are tainted, it stays Pending.

GPU node groups are often tainted with `nvidia.com/gpu=true:NoSchedule`, so that other pods leave them alone; managed services
(GKE, and clusters with the admission plugin ExtendedResourceToleration) add the toleration themselves, and many clusters
have no taint. So the rule is off by default.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#example-use-cases.

Bad:

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train  # <-
    spec:
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu: 1

Good:

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu: 1

Quiet: another taint

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      tolerations:
        - {key: dedicated, value: gpu, effect: NoSchedule}
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu: 1
"""

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import GPU, pods, span_of

rule = Rule("KU106", "gpu-toleration-missing", Severity.WARNING, when="strict", kinds=("kubernetes",))


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if GPU not in unit.source:
        return
    for pod in pods(unit):
        tolerated = pod.spec.at("tolerations")
        if pod.gpus.number and (tolerated.is_absent or tolerated.items == ()):
            yield rule.hit(
                span_of(pod, unit),
                f"{pod.title} asks for a GPU and tolerates no taint of GPU nodes.",
                remedy=f"Add a toleration with key {GPU}, operator Exists and effect NoSchedule.",
            )
