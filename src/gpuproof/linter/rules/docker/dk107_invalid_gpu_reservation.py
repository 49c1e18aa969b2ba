"""Docker Compose rejects or ignores the GPUs that a service reserves.

A device reservation requires `capabilities`; `count` and `device_ids` exclude each other; and devices can be reserved but not
limited: under `resources.limits` the specification has no such key. Compose then stops before any container starts, or
the service gets no GPU. Source: https://docs.docker.com/reference/compose-file/deploy/#devices.

Bad: no capabilities

    # file: compose.yaml
    services:
      train:
        image: registry.example.com/train:1.4
        deploy:
          resources:
            reservations:
              devices:
                - driver: nvidia  # <-
                  count: 1

Bad: both a number and devices

    # file: docker-compose.yml
    services:
      train:
        image: registry.example.com/train:1.4
        deploy:
          resources:
            reservations:
              devices:
                - driver: nvidia  # <-
                  count: 2
                  device_ids: ["0", "1"]
                  capabilities: [gpu]

Bad: a limit

    # file: compose.yaml
    services:
      train:
        image: registry.example.com/train:1.4
        deploy:
          resources:
            limits:
              devices:
                - driver: nvidia  # <-
                  count: 1
                  capabilities: [gpu]

Good:

    # file: compose.yaml
    services:
      train:
        image: registry.example.com/train:1.4
        deploy:
          resources:
            reservations:
              devices:
                - driver: nvidia
                  count: 1
                  capabilities: [gpu]

Quiet: values from an anchor, and the short form

    # file: compose.yaml
    x-gpu: &gpu
      driver: nvidia
      count: all
      capabilities: [gpu]
    services:
      train:
        image: registry.example.com/train:1.4
        deploy: {resources: {reservations: {devices: [*gpu]}}}
      serve:
        image: registry.example.com/serve:1.4
        gpus: all
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DK107", "invalid-gpu-reservation", Severity.ERROR)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source != "compose":
        return
    name = job.api.partition(" ")[2]
    resources = job.argument("deploy").at("resources")
    limited = resources.at("limits", "devices")
    if limited.items:
        yield rule.hit(
            limited.items[0].span or job.span,
            f"The service `{name}` has devices under `limits`, where Compose has no such key: it gets no GPU.",
            remedy="Move `devices` to `reservations`.",
        )
    for device in resources.at("reservations", "devices").items or ():
        if device.entries is None:
            continue
        if device.at("capabilities").is_absent:
            yield rule.hit(
                device.span or job.span,
                f"The device reservation of `{name}` has no `capabilities`: Compose rejects it.",
                remedy="Add `capabilities: [gpu]`.",
            )
        elif not device.at("count").is_absent and not device.at("device_ids").is_absent:
            yield rule.hit(
                device.span or job.span,
                f"The device reservation of `{name}` has both `count` and `device_ids`, which exclude each other.",
                remedy="Remove `count`.",
            )
