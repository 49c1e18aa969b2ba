"""A pod asks for more GPUs than the instance type of its node has: it stays Pending forever.

The scheduler looks for one node with all the GPUs of a pod. `node.kubernetes.io/instance-type: g5.xlarge` has one GPU, and a
CPU type has none; an autoscaler does not even start a node for such a pod. Eight GPUs on nodes with four need two pods.
Source: https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/.

Bad:

    # file: job.yaml
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
    spec:
      template:
        spec:
          restartPolicy: Never
          nodeSelector:
            node.kubernetes.io/instance-type: g5.2xlarge
          containers:
            - name: train
              image: registry.example.com/train:1.4
              resources:
                limits:
                  nvidia.com/gpu: 4  # <-

Bad: a type without a GPU, by affinity

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - key: node.kubernetes.io/instance-type
                    operator: In
                    values: [m5.4xlarge, m5.8xlarge]  # <-
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu: 1

Good:

    # file: job.yaml
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
    spec:
      template:
        spec:
          restartPolicy: Never
          nodeSelector:
            node.kubernetes.io/instance-type: g5.12xlarge
          containers:
            - name: train
              image: registry.example.com/train:1.4
              resources:
                limits:
                  nvidia.com/gpu: 4

Quiet: a type among others that has them, and one that is unknown

    # file: pods.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - key: node.kubernetes.io/instance-type
                    operator: In
                    values: [g5.xlarge, g5.12xlarge]
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu: 4
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: azure
    spec:
      nodeSelector:
        node.kubernetes.io/instance-type: Standard_NC6
      containers:
        - name: train
          image: registry.example.com/train:1.4
          resources:
            limits:
              nvidia.com/gpu: 4
"""

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import GPU, pods, span_of
from gpuproof.util.humanize import pluralize

rule = Rule("KU103", "more-gpus-than-node", Severity.ERROR, kinds=("kubernetes",))


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if GPU not in unit.source:
        return
    for pod in pods(unit):
        wanted, types = pod.gpus, pod.instance_types()
        if not wanted.number or not types.texts or len(types.texts) != len(types.options):
            continue
        counts = {name: _gpus(name, project) for name in types.texts}
        largest = max((count for count in counts.values() if count is not None), default=0)
        if None in counts.values() or wanted.number <= largest:
            continue
        names = " and ".join(f"`{name}`" for name in counts)
        has = f"{'have' if len(counts) > 1 else 'has'} {pluralize(largest, 'GPU') if largest else 'none'}"
        yield rule.hit(
            (wanted.span if largest else types.span) or span_of(pod, unit),
            f"{pod.title} asks for {pluralize(int(wanted.number), 'GPU')} in one pod, but {names} {has}: it stays Pending.",
            remedy="Choose an instance type with as many GPUs, or ask for fewer in each of several pods.",
        )


def _gpus(name: str, project: Project) -> int | None:
    """GPUs of an instance type; None if it is not one of EC2."""
    instance = project.catalogue.instance(name)
    return instance.gpu_count if instance is not None and not name.startswith("ml.") else None
