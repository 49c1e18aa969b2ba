"""A pod runs GPU work, or is placed on a GPU node, without a limit of `nvidia.com/gpu`.

Kubernetes gives a container GPUs only by `resources.limits`. Without it the scheduler counts none: the pod may start on a
node without a GPU, or next to others that use the same one; the container sees no GPU, or, where NVIDIA's runtime is the
node's default, all of them at once. On a GPU node it costs as much as with a GPU.
Source: https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/, https://github.com/NVIDIA/k8s-device-plugin.

Bad: on a GPU node

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
            node.kubernetes.io/instance-type: g5.xlarge
          containers:
            - name: train  # <-
              image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1.4
              command: ["python", "train.py"]
              resources:
                limits: {cpu: "4", memory: 16Gi}

Bad: a script that requires a GPU

    # file: k8s/job.yaml
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: train  # <-
              image: pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
              command: ["python", "/workspace/train.py"]
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()

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
            node.kubernetes.io/instance-type: g5.xlarge
          containers:
            - name: train
              image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1.4
              command: ["python", "train.py"]
              resources:
                limits:
                  nvidia.com/gpu: 1

Quiet: a driver of the cluster

    # file: controller.yaml
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: fsx-csi-controller
    spec:
      selector:
        matchLabels:
          app: fsx-csi-controller
      template:
        metadata:
          labels:
            app: fsx-csi-controller
        spec:
          priorityClassName: system-cluster-critical
          nodeSelector:
            node.kubernetes.io/instance-type: p4d.24xlarge
          containers:
            - name: fsx-plugin
              image: registry.example.com/aws-fsx-csi-driver:1.4

Quiet: what manages GPUs runs on each node, and parts of a GPU are a limit, too

    # file: plugin.yaml
    apiVersion: apps/v1
    kind: DaemonSet
    metadata:
      name: dcgm-exporter
    spec:
      selector: {matchLabels: {app: dcgm}}
      template:
        metadata: {labels: {app: dcgm}}
        spec:
          nodeSelector: {nvidia.com/gpu.present: "true"}
          containers:
            - name: dcgm
              image: nvcr.io/nvidia/k8s/dcgm-exporter:3.3.5
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: notebook
    spec:
      nodeSelector: {node.kubernetes.io/instance-type: p4d.24xlarge}
      containers:
        - name: notebook
          image: jupyter/pytorch-notebook:cuda12-latest
          resources:
            limits: {nvidia.com/mig-1g.5gb: 1}
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.containers.public_images import public_image
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import Pod, pods, span_of, texts_of

rule = Rule("KU101", "gpu-pod-without-limit", Severity.WARNING, kinds=("kubernetes",))

_LABELS = (
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.present",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu",
)
"""Labels that only nodes with a GPU have."""
_INFRASTRUCTURE = (
    "etcd",
    "redis",
    "nginx",
    "busybox",
    "alpine",
    "prometheus",
    "grafana",
    "node-exporter",
    "fluent",
    "postgres",
    "mysql",
    "memcached",
    "haproxy",
    "envoy",
    "kube",
    "pause",
)
_SERVERS = frozenset({"vllm/vllm-openai", "lmsysorg/sglang", "ghcr.io/huggingface/text-generation-inference"})
"""Images whose program does not start without a GPU."""


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    for pod in pods(unit):
        if pod.kind in ("DaemonSet", "ClusterPolicy") or "Launcher" in pod.path:
            continue  # what manages the GPUs of a node, and what starts mpirun
        if pod.asks_for_gpus or _sees_all(pod) or _serves_others(pod):
            continue
        why = _on_gpu_node(pod, project) or _by_image(pod) or _by_script(pod, unit, project)
        if why is not None:
            yield rule.hit(
                pod.containers[0].at("name").span or span_of(pod, unit),
                f"{pod.title} has no `nvidia.com/gpu` limit, but {why}.",
                remedy="Add nvidia.com/gpu: 1 to resources.limits of its container.",
            )


def _sees_all(pod: Pod) -> bool:
    """Whether a pod takes the node's GPUs past the scheduler on purpose."""
    return any(
        item.at("name").text == "NVIDIA_VISIBLE_DEVICES"
        for container in pod.containers
        for item in container.at("env").items or ()
    )


def _serves_others(pod: Pod) -> bool:
    """Whether a pod runs only what others use: a driver of the cluster, the meeting point of an elastic job."""
    priority = pod.spec.at("priorityClassName").text or ""
    if priority.startswith("system-") or pod.manifest.at("metadata").at("namespace").text == "kube-system":
        return True
    names = [(container.at("image").text or "").rpartition("/")[2] for container in pod.containers]
    return all(name.startswith(_INFRASTRUCTURE) for name in names)


def _on_gpu_node(pod: Pod, project: Project) -> str | None:
    types = pod.instance_types()
    for name in types.texts:
        instance = find_instance(project, name)
        if instance is None or not instance.gpu_count:
            break
    else:
        if types.texts:
            return f"it is placed on `{types.texts[0]}`, whose GPUs it pays for and does not get"
    for label, value in pod.spec.at("nodeSelector").parts.items():
        if str(label).startswith(_LABELS) and value.text not in ("false", ""):
            return f"it is placed on a node with a GPU (`{label}`)"
    return None


def _by_image(pod: Pod) -> str | None:
    for container in pod.containers:
        name = container.at("image").text or ""
        image = public_image(name)
        repository = name.partition("@")[0].rpartition(":")[0] or name
        words = [*texts_of(container.at("command")), *texts_of(container.at("args"))]
        on_cpu = any("cpu" in word for word in words)
        if image is not None and image.device == "gpu" and repository in _SERVERS and not on_cpu:
            return f"`{name}` needs a GPU"
    return None


def _by_script(pod: Pod, unit: Unit, project: Project) -> str | None:
    for job in project.jobs:
        if job.source != "kubernetes" or job.span.unit is not unit or not _is_of(pod, job):
            continue
        if job.script is not None and (line := line_that_needs_gpu(job.script)):
            return f"`{job.script_title}` requires a GPU in line {line}"
    return None


def _is_of(pod: Pod, job: JobDefinition) -> bool:
    spans = [container.at("name").span for container in pod.containers]
    return job.span in spans
