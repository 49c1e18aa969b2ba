"""A GPU notebook instance that nothing stops when it is idle runs, and is billed, until it is stopped by hand.

Nights and weekends make up three quarters of a week. AWS publishes a lifecycle configuration that stops idle
instances among its lifecycle samples. One that only installs packages stops nothing: the rule reads the scripts of
lifecycle configurations in the same template or file, and is silent if they may stop an instance or run other scripts. `gpuproof notebook create` has one of its own, unless `idle_timeout` is null.

Bad:

    import boto3

    boto3.client("sagemaker").create_notebook_instance(
        NotebookInstanceName="lab", InstanceType="ml.g4dn.xlarge", RoleArn="r"  # <-
    )

Bad:

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {
      name          = "lab"
      role_arn      = "arn:aws:iam::111122223333:role/lab"
      instance_type = "ml.g4dn.xlarge"  # <-
    }

Bad:

    # file: gpuproof.yaml
    kind: notebook
    name: lab
    instance_type: ml.g4dn.xlarge  # <-
    idle_timeout: null

Bad: its lifecycle configuration does something else

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Resources:
      Config:
        Type: AWS::SageMaker::NotebookInstanceLifecycleConfig
        Properties:
          OnStart:
            - Content:
                Fn::Base64: |
                  #!/bin/bash
                  sudo -u ec2-user pip install jupyterlab-git
      Lab:
        Type: AWS::SageMaker::NotebookInstance
        Properties:
          InstanceType: ml.g4dn.xlarge  # <-
          RoleArn: arn:aws:iam::111122223333:role/lab
          LifecycleConfigName: !GetAtt Config.NotebookInstanceLifecycleConfigName

Good:

    # file: gpuproof.yaml
    kind: notebook
    name: lab
    instance_type: ml.g4dn.xlarge

Good:

    import boto3

    boto3.client("sagemaker").create_notebook_instance(
        NotebookInstanceName="lab",
        InstanceType="ml.g4dn.xlarge",
        RoleArn="arn:aws:iam::123456789012:role/notebooks",
        LifecycleConfigName="auto-stop",
        SubnetId="subnet-0123456789abcdef0",
        SecurityGroupIds=["sg-0123456789abcdef0"],
        DirectInternetAccess="Disabled",
    )

Quiet: no GPU

    import boto3

    boto3.client("sagemaker").create_notebook_instance(
        NotebookInstanceName="lab", InstanceType="ml.t3.medium", RoleArn="r"
    )

Quiet: the arguments may contain it

    import boto3

    def create(**options):
        boto3.client("sagemaker").create_notebook_instance(InstanceType="ml.g4dn.xlarge", **options)
"""

from gpuproof.catalogue.prices import cost_text
from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, hourly_price, hourly_text, no_price
from gpuproof.linter.knowledge.aws.lifecycle import (
    LifecycleScript,
    may_stop,
    scripts_of_module,
    scripts_of_template,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("CO104", "gpu-notebook-without-idle-stop", Severity.WARNING)

_KEYS = ("LifecycleConfigName", "lifecycle_config_name", "lifecycle_configuration_name")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.kind != "notebook" or job.api == "update_notebook_instance" or not gpus_per_host(project, job):
        return
    named = next((value for key in _KEYS if not (value := job.argument(key)).is_absent), None)
    scripts = _scripts(job, named) if named is not None else []
    if _stops_by_itself(job) or (
        named is not None and (not scripts or any(may_stop(script) for script in scripts))
    ):
        return
    name = str(job.instance_type.text)
    price = hourly_price(project, name, "notebook")
    cost = f" ({hourly_text(price)}, {cost_text(price, 730, 0)} a month)" if price else no_price(project)
    yield rule.hit(
        job.where(job.instance_type),
        f"The notebook instance on `{name}`{cost} is not stopped when it is idle"
        f"{': its lifecycle configuration does something else' if scripts else ''}.",
        remedy="Remove idle_timeout, which is 1h by default."
        if job.source == "gpuproof"
        else "Stop the instance when it is idle in its lifecycle configuration, too."
        if scripts
        else "Add a lifecycle configuration that stops the instance when it is idle.",
        severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
    )


def _scripts(job: JobDefinition, named: Value) -> list[LifecycleScript]:
    """The scripts of a notebook's lifecycle configuration, if it is in the same file; of all there, if its name is unknown."""
    if job.module is not None:
        scripts = scripts_of_module(job.module)
    elif job.source in ("cloudformation", "terraform"):
        scripts = scripts_of_template(job.span.unit)
    else:
        return []
    return [script for script in scripts if named.text is None or script.config == named.text]


def _stops_by_itself(job: JobDefinition) -> bool:
    """Whether GPUproof's own lifecycle configuration stops it: always, but for `idle_timeout: null`."""
    return job.source == "gpuproof" and not (
        "idle_timeout" in job.arguments and job.arguments["idle_timeout"].is_absent
    )
