"""The pods of a Job must not restart always: the API server rejects the manifest.

`restartPolicy` of a pod is `Always` by default, and a `Job` accepts only `Never` and `OnFailure`: "spec.template.spec.restartPolicy:
Required value: valid values: \\"OnFailure\\", \\"Never\\"". Only jobs with a GPU are checked here; kubeconform and the server
itself check the rest. Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template.

Bad:

    # file: job.yaml
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train  # <-
    spec:
      template:
        spec:
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
          containers:
            - name: train
              image: registry.example.com/train:1.4
              resources:
                limits:
                  nvidia.com/gpu: 1

Quiet: a job of Volcano, which has its own policies

    # file: job.yaml
    apiVersion: batch.volcano.sh/v1alpha1
    kind: Job
    metadata:
      name: train
    spec:
      minAvailable: 1
      tasks:
        - replicas: 1
          name: worker
          template:
            spec:
              restartPolicy: Always
              containers:
                - name: worker
                  image: registry.example.com/train:1.4
                  resources:
                    limits:
                      nvidia.com/gpu: 1

Quiet: a pod, and a patch

    # file: pods.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: serve
    spec:
      restartPolicy: Always
      containers:
        - name: serve
          image: registry.example.com/serve:1.4
          resources:
            limits:
              nvidia.com/gpu: 1
    ---
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
    spec:
      template:
        spec:
          containers:
            - name: train
              resources:
                limits:
                  nvidia.com/gpu: 2
"""

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import GPU, pods, span_of

rule = Rule("KU109", "job-restart-policy", Severity.ERROR, kinds=("kubernetes",))


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if GPU not in unit.source:
        return
    for pod in pods(unit):
        policy = pod.spec.at("restartPolicy")
        if (
            pod.kind not in ("Job", "CronJob")
            or not (pod.manifest.at("apiVersion").text or "").startswith("batch/")
            or not pod.gpus.number
            or any(container.at("image").is_absent for container in pod.containers)
        ):
            continue
        if policy.is_absent or policy.text == "Always":
            what = "is Always by default" if policy.is_absent else "is Always"
            yield rule.hit(
                policy.span or span_of(pod, unit),
                f"{pod.title}: restartPolicy {what}, which a Job does not accept: the API server rejects it.",
                remedy="Write restartPolicy: Never.",
            )
