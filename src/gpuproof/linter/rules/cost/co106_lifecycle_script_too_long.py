"""A lifecycle script may run for 5 minutes; then SageMaker gives up, and the notebook is not created or started.

Creating a conda environment, building an image or compiling CUDA extensions takes longer. The notebook then ends as
`Failed`, after its GPU was billed for the attempt. Run such commands in the background with `nohup`: the script returns
at once, and the environment appears when it is ready. (AWS: "Lifecycle configuration best practices".)

Bad:

    # file: template.yaml
    AWSTemplateFormatVersion: "2010-09-09"
    Resources:
      Config:
        Type: AWS::SageMaker::NotebookInstanceLifecycleConfig
        Properties:
          OnStart:
            - Content:
                Fn::Base64: |  # <-
                  #!/bin/bash
                  conda create -y -n lab python=3.12 pytorch

Bad:

    import base64
    import boto3

    script = '''#!/bin/bash
    sudo -u ec2-user mamba env create -f /home/ec2-user/SageMaker/environment.yml
    '''
    boto3.client("sagemaker").create_notebook_instance_lifecycle_config(
        NotebookInstanceLifecycleConfigName="lab",
        OnCreate=[{"Content": base64.b64encode(script.encode()).decode()}],  # <-
    )

Good:

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
                  nohup conda create -y -n lab python=3.12 pytorch > /tmp/lab.log 2>&1 &

Quiet: written to a file, which runs in the background

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
                  cat > /tmp/lab.sh <<'EOF'
                  conda create -y -n lab python=3.12 pytorch
                  EOF
                  nohup bash /tmp/lab.sh &

Quiet: an existing environment

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
                  source activate pytorch_p310
                  pip install tqdm
"""

from collections.abc import Iterable

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.lifecycle import (
    LIMIT_MINUTES,
    LifecycleScript,
    scripts_of_module,
    scripts_of_resource,
    slow_command,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.templates.resource import Resource

rule = Rule("CO106", "lifecycle-script-too-long", Severity.WARNING, needs=("lifecycle_config",))


@rule.resource
def check_resource(resource: Resource, _: Project) -> Hits:
    yield from _hits(scripts_of_resource(resource))


@rule.module
def check(module: Module, _: Project) -> Hits:
    yield from _hits(scripts_of_module(module))


def _hits(scripts: Iterable[LifecycleScript]) -> Hits:
    for script in scripts:
        command = slow_command(script)
        if command is not None:
            yield rule.hit(
                script.span,
                f"`{command[:60]}` takes longer than the {LIMIT_MINUTES} minutes that a lifecycle script may run: the notebook "
                "fails to start.",
                remedy="Run it in the background: nohup ... > /tmp/setup.log 2>&1 &",
            )
