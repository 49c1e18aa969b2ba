"""The request of `nvidia.com/gpu` differs from its limit, or is not a whole number: the API server rejects the pod.

GPUs are not shared between pods by the scheduler. A limit alone is enough, and is the request, too; a request alone is
rejected ("Limit must be set for non overcommitable resources"), as are a request that differs, `0.5` and `500m` ("must be an
integer"). A job then never has a pod. Source: https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/.

Bad: a request alone

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
            requests:
              nvidia.com/gpu: 1  # <-

Bad: two numbers, and half a GPU

    # file: pods.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            requests:
              nvidia.com/gpu: 1  # <-
            limits:
              nvidia.com/gpu: 4
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: notebook
    spec:
      containers:
        - name: notebook
          image: registry.example.com/notebook:1.4
          resources:
            limits:
              nvidia.com/gpu: "0.5"  # <-

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
            requests:
              cpu: "4"
            limits:
              nvidia.com/gpu: "1"

Quiet: numbers that another tool fills in, and a patch of Kustomize

    # file: workflow.yaml
    apiVersion: argoproj.io/v1alpha1
    kind: Workflow
    metadata:
      name: train
    spec:
      templates:
        - name: train
          podSpecPatch: "{{inputs.parameters.gpus}}"
          containers:
            - name: main
              image: registry.example.com/train:1.4
              resources:
                limits:
                  nvidia.com/gpu: "{{inputs.parameters.gpus}}"
    # file: patch.yaml
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: serve
    spec:
      template:
        spec:
          containers:
            - name: serve
              resources:
                requests:
                  nvidia.com/gpu: 2
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import GPU, as_number, pods, span_of
from gpuproof.util.humanize import pluralize

rule = Rule("KU102", "gpu-request-not-limit", Severity.ERROR, kinds=("kubernetes",))


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if GPU not in unit.source:
        return
    for pod in pods(unit):
        for container in pod.containers:
            if container.at("image").is_absent:
                continue
            limit, request = (container.at("resources", kind, GPU) for kind in ("limits", "requests"))
            reason = _reason(as_number(limit), as_number(request))
            if reason is None:
                continue
            wrong = limit if request.is_absent or _fraction(as_number(limit)) else request
            yield rule.hit(
                wrong.span or span_of(pod, unit),
                f"{pod.title}: {reason}: the API server rejects the pod.",
                remedy=f"Write a whole number under limits: {GPU}: {_whole(limit, request)}.",
            )


def _reason(limit: Value, request: Value) -> str | None:
    for value in (limit, request):
        if (fraction := _fraction(value)) is not None:
            return f"`{GPU}: {fraction}` is not a whole number"
    if limit.is_absent and request.number:
        return f"`{GPU}` has a request and no limit"
    if limit.number is not None and request.number is not None and limit.number != request.number:
        return (
            f"the request of {pluralize(int(request.number), 'GPU')} differs from the limit of {limit.number}"
        )
    return None


def _fraction(value: Value) -> str | None:
    """A quantity that is certainly no whole number: `0.5`, `500m`."""
    if not value.is_known or value.value is None:
        return None
    text = str(value.value)
    if text.endswith("m") and text[:-1].isdigit():
        return text if int(text[:-1]) % 1000 else None
    try:
        return text if float(text) % 1 else None
    except ValueError:
        return None


def _whole(*values: Value) -> int:
    numbers = [as_number(value).number for value in values]
    return max([1, *(int(number) for number in numbers if number)])
