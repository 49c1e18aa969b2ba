"""A job of Kubeflow's training operator has no container with the name that the operator looks for: it is never started.

A `PyTorchJob` needs a container named `pytorch` in every replica, a `TFJob` one named `tensorflow`. The operator sets RANK,
WORLD_SIZE and MASTER_ADDR in it and watches its exit code; without it the job is Failed, or rejected, before any pod exists.
Source: https://github.com/kubeflow/trainer/tree/release-1.9 (pkg/webhooks, pkg/apis/kubeflow.org/v1).

Bad:

    # file: job.yaml
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata:
      name: train
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          restartPolicy: OnFailure
          template:
            spec:
              containers:
                - name: trainer  # <-
                  image: registry.example.com/train:1.4
                  resources:
                    limits:
                      nvidia.com/gpu: 1

Good:

    # file: job.yaml
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata:
      name: train
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          restartPolicy: OnFailure
          template:
            spec:
              containers:
                - name: pytorch
                  image: registry.example.com/train:1.4
                  resources:
                    limits:
                      nvidia.com/gpu: 1

Quiet: another container beside it, and a plain job

    # file: jobs.yaml
    apiVersion: kubeflow.org/v1
    kind: TFJob
    metadata:
      name: train
    spec:
      tfReplicaSpecs:
        Worker:
          replicas: 2
          template:
            spec:
              containers:
                - name: logs
                  image: registry.example.com/logs:1.0
                - name: tensorflow
                  image: registry.example.com/train:1.4
    ---
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: trainer
              image: registry.example.com/train:1.4
"""

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import pods, span_of

rule = Rule("KU107", "kubeflow-container-name", Severity.ERROR, kinds=("kubernetes",))

_NAMES = {
    "PyTorchJob": "pytorch",
    "TFJob": "tensorflow",
    "XGBoostJob": "xgboost",
    "PaddleJob": "paddle",
    "JAXJob": "jax",
}


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if "kubeflow.org" not in unit.source:
        return
    for pod in pods(unit):
        wanted = _NAMES.get(pod.kind)
        names = [container.at("name") for container in pod.containers]
        if (
            wanted is None
            or not all(name.is_known for name in names)
            or "{" in "".join(str(name.text) for name in names)
        ):
            continue
        if wanted not in [name.text for name in names]:
            yield rule.hit(
                names[0].span or span_of(pod, unit),
                f"{pod.title}: the operator looks for a container named `{wanted}`, and this one is named `{names[0].text}`.",
                remedy=f"Name it {wanted}.",
            )
