"""The steps of the acceptance run: commands of GPUproof, what each must show, what it costs, and the facts that it confirms."""

from __future__ import annotations

from acceptance.readings import (
    has_resource,
    machine_driver,
    member,
    notebook_named,
    printed_by_handler,
    start_seconds,
    tag_of,
    training_driver,
)
from acceptance.step import Charge, Claim, Step

PREFIX = "acceptance-"
"""Names of everything that the steps create begin with it."""
EC2, SAGEMAKER = "g4dn.xlarge", "ml.g4dn.xlarge"
ENDPOINT, TENSORFLOW, NOTEBOOK = f"{PREFIX}endpoint", f"{PREFIX}tensorflow", f"{PREFIX}notebook"


_USED = Claim("the verdict is used", lambda r: r.document["verdict"]["outcome"] == "used")
_CPU_ONLY = Claim("the verdict is cpu-only", lambda r: r.document["verdict"]["outcome"] == "cpu-only")
_COMPLETED = Claim("the run is Completed", lambda r: r.document["run"]["status"] == "Completed")
_DESCRIBED = Claim("its script has described the machine", lambda r: bool(r.machine))
_NO_INSTANCES = Claim(
    "no instance is left",
    lambda r: not [found for found in r.document["resources"] if (found["run"] or "").startswith(PREFIX)],
)
_ENDPOINT_ON_GPU = Claim("the model is on the GPU", lambda r: r.document["verdict"]["verdict"] == "used")
_JSON = "--format json"
_ON_EC2 = f"--on ec2 --instance-type {EC2} --framework pytorch {_JSON}"
_ON_SAGEMAKER = f"--on sagemaker --instance-type {SAGEMAKER} --framework pytorch {_JSON}"
_DEPLOY = f"--instance-type {SAGEMAKER} --ttl 30m {_JSON}"
_DETACHED = f"--detach --no-check {_ON_EC2}"

STEPS: tuple[Step, ...] = (
    Step(
        "account",
        f"setup --dry-run --instance-type {EC2} --instance-type {SAGEMAKER} {_JSON}",
        "the quotas suffice, and the account can be read",
        1,
        claims=(
            Claim(
                "no quota is too small",
                lambda r: all(quota["suffices"] is not False for quota in r.document["quotas"]),
            ),
            Claim(
                f"EC2's quota is for two {EC2} at the same time",
                lambda r: all(
                    quota["value"] is None or quota["value"] >= 2 * quota["needed"]
                    for quota in r.document["quotas"]
                    if quota["instance_type"] == EC2
                ),
            ),
            Claim(
                "nothing that exists is unusable",
                lambda r: all(part["state"] != "unusable" for part in r.document["parts"]),
            ),
        ),
        reads={
            "quota-names": lambda r: [
                {"code": quota["code"], "name": quota["name"], "known": quota["value"] is not None}
                for quota in r.document["quotas"]
            ]
        },
    ),
    Step("setup", f"setup --yes {_JSON}", "the roles, the bucket and the network can be created", 1),
    Step(
        "setup-complete",
        f"setup --dry-run {_JSON}",
        "setup is complete",
        0.1,
        claims=(Claim("nothing is missing", lambda r: r.document["complete"]),),
    ),
    Step("plan-ec2", f"run train.py --dry-run {_ON_EC2}", "a run on EC2 can be planned", 0.1),
    Step("plan-spot", f"run train.py --spot --dry-run {_ON_EC2}", "a spot run can be planned", 0.1),
    Step("plan-sagemaker", f"run train.py --dry-run {_ON_SAGEMAKER}", "a training job can be planned", 0.1),
    Step(
        "plan-endpoint",
        f"deploy handler --name {ENDPOINT} --framework pytorch --dry-run {_DEPLOY}",
        "an endpoint can be planned",
        0.1,
    ),
    Step(
        "plan-transform",
        f"transform handler --framework pytorch --input rows --output {{results}} --instance-type {SAGEMAKER} --dry-run {_JSON}",
        "a batch transform job can be planned",
        0.1,
    ),
    Step(
        "plan-notebook",
        f"notebook create {NOTEBOOK} --instance-type {SAGEMAKER} --dry-run {_JSON}",
        "a notebook instance can be planned",
        0.1,
    ),
    Step(
        "limit-start",
        f"run hang.py --name {PREFIX}limit --max-duration {{hang_limit}} --no-require-gpu {_DETACHED}",
        "an instance is launched for a client that goes away",
        0.1,
        charges=(Charge(EC2, 12),),
        group="limit",
    ),
    Step(
        "ec2",
        f"run train.py --name {PREFIX}ec2 --max-duration 20m {_ON_EC2}",
        "the default image of EC2 runs PyTorch on the GPU",
        6,
        claims=(_COMPLETED, _USED),
        reads={
            "ec2-processes": lambda r: r.document["verdict"]["gpus"][0]["judged_by"],
            "ec2-start-time": start_seconds,
        },
        confirms=("ec2-default-image",),
        charges=(Charge(EC2, 7),),
        group="ec2",
    ),
    Step(
        "ec2-machine",
        f"pull {{ec2}} -x --to {{pulled}} {_JSON}",
        "the driver, the Python and the disk of that image",
        0.1,
        claims=(_DESCRIBED,),
        reads={
            "ec2-driver": machine_driver,
            "ec2-agent-python": lambda r: r.machine["system_python"],
            # The run has ended well, so that False says: elsewhere.
            "ec2-aws-cli": lambda r: r.machine["aws_on_root_path"] or None,
            "ec2-local-disk": lambda r: r.machine["model_device"],
        },
        group="ec2",
    ),
    Step(
        "endpoint",
        f"deploy handler --name {ENDPOINT} --framework pytorch --max-instances 2 {_DEPLOY}",
        "a handler serves in AWS's image, on the GPU, with a schedule that deletes the endpoint",
        9,
        claims=(
            _ENDPOINT_ON_GPU,
            Claim("a schedule deletes it", lambda r: r.document["delete_at"] is not None),
        ),
        # Only roles that this run has created are new.
        reads={"new-roles": lambda r: r.earlier["setup"]["created"] or None},
        confirms=("endpoint-gpu",),
        charges=(Charge(SAGEMAKER, 45),),
        group="endpoint",
    ),
    Step(
        "predict",
        f"predict {ENDPOINT} --data rows/rows.json {_JSON}",
        "the endpoint answers, and the driver of its host",
        0.1,
        reads={
            "endpoint-driver": lambda r: {
                **r.document["predictions"][0]["json"],
                "host_image": member(r.earlier["plan-endpoint"], "InferenceAmiVersion"),
            }
        },
        group="endpoint",
    ),
    Step(
        "notebook-start",
        f"notebook create {NOTEBOOK} --instance-type {SAGEMAKER} --idle-timeout {{idle_timeout}} {_JSON}",
        "a notebook instance starts, and its lifecycle script ends in time",
        5,
        claims=(Claim("it is in service", lambda r: r.document["status"] == "InService"),),
        charges=(Charge(SAGEMAKER, 25),),
        group="notebook",
    ),
    Step(
        "limit",
        f"wait {{limit-start}} {_JSON}",
        "the instance ends the run at its time limit without the client",
        1,
        code=1,
        claims=(Claim("the run has ended", lambda r: r.document["run"]["status"] in ("Failed", "Stopped")),),
        group="limit",
    ),
    Step(
        "limit-end",
        f"cleanup --gpuproof --kind instance {_JSON}",
        "no instance is left of it",
        2,
        claims=(_NO_INSTANCES,),
        confirms=("ec2-end", "ec2-time-limit"),
        within=10,
        group="limit",
    ),
    Step(
        "ec2-idle-start",
        f"run idle.py --name {PREFIX}ec2-idle --max-duration 15m {_DETACHED}",
        "a script for the CPU is started on a GPU",
        0.1,
        charges=(Charge(EC2, 6),),
        group="ec2-idle",
    ),
    Step(
        "container-start",
        f"run container.yaml --max-duration 25m {_DETACHED}",
        "AWS's image is started on EC2",
        0.1,
        charges=(Charge(EC2, 10),),
        group="container",
    ),
    Step(
        "sagemaker",
        f"run train.py --name {PREFIX}sagemaker --max-duration 20m {_ON_SAGEMAKER}",
        "the default image of SageMaker runs PyTorch on the GPU",
        8,
        claims=(_COMPLETED, _USED),
        reads={
            "sagemaker-default-image": lambda r: tag_of(r.document["run"]["image"]),
            "sagemaker-processes": lambda r: r.document["verdict"]["gpus"][0]["judged_by"],
            "sagemaker-start-time": start_seconds,
        },
        charges=(Charge(SAGEMAKER, 6),),
        group="sagemaker",
    ),
    Step(
        "sagemaker-machine",
        f"pull {{sagemaker}} -x --to {{pulled}} {_JSON}",
        "the driver of training hosts",
        0.1,
        claims=(_DESCRIBED,),
        reads={"sagemaker-training-driver": training_driver},
        group="sagemaker",
    ),
    Step(
        "sagemaker-logs",
        f"logs {{sagemaker}} {_JSON}",
        "the script's output can be read",
        0.1,
        claims=(Claim("it has the script's last line", lambda r: "acceptance: trained" in str(r.document)),),
        confirms=("sagemaker-logs",),
        group="sagemaker",
    ),
    Step(
        "ec2-idle",
        f"wait {{ec2-idle-start}} {_JSON}",
        "a GPU that did nothing on EC2 is found",
        0.1,
        code=4,
        claims=(_CPU_ONLY,),
        group="ec2-idle",
    ),
    Step(
        "container",
        f"wait {{container-start}} {_JSON}",
        "a container on EC2 uses the GPU",
        1,
        claims=(_COMPLETED, _USED),
        confirms=("ec2-container",),
        group="container",
    ),
    Step(
        "refused-pull-start",
        f"run train.py --name {PREFIX}refused --image {{missing_image}} --max-duration 15m {_DETACHED}",
        "an image that does not exist is started on EC2",
        0.1,
        charges=(Charge(EC2, 5),),
        group="refused-pull",
        faults=({"kind": "access-denied", "service": "ecr"},),
    ),
    Step(
        "environment-start",
        f"run train.py --name {PREFIX}environment --framework-version 2.8.0 --max-duration 25m {_DETACHED}",
        "an environment with another PyTorch is started on EC2",
        0.1,
        charges=(Charge(EC2, 10),),
        group="environment",
        account_only="it installs PyTorch for CUDA from PyPI",
    ),
    Step(
        "sagemaker-idle",
        f"run idle.py --name {PREFIX}sagemaker-idle --no-check --max-duration 15m {_ON_SAGEMAKER}",
        "a GPU that did nothing on SageMaker is found",
        6,
        code=4,
        claims=(_CPU_ONLY,),
        charges=(Charge(SAGEMAKER, 4),),
        group="sagemaker-idle",
    ),
    Step(
        "environment",
        f"wait {{environment-start}} {_JSON}",
        "uv makes an environment on the instance",
        1,
        claims=(_COMPLETED, _USED),
        confirms=("ec2-environment",),
        group="environment",
        account_only="it installs PyTorch for CUDA from PyPI",
    ),
    Step(
        "notebook",
        f"notebook list {_JSON}",
        "an idle notebook instance stops by itself",
        2,
        claims=(Claim("it is Stopped", lambda r: notebook_named(r, NOTEBOOK)["status"] == "Stopped"),),
        confirms=("notebook-idle-stop",),
        within=25,
        group="notebook",
        account_only="it takes 10 minutes, which the emulator cannot shorten",
    ),
    Step("notebook-end", f"notebook delete {NOTEBOOK} --yes", "it is deleted", 1, group="notebook"),
    Step(
        "spot-start",
        f"run hang.py --name {PREFIX}spot --spot --max-duration 15m --no-require-gpu {_DETACHED}",
        "a spot request is accepted",
        0.1,
        confirms=("ec2-spot",),
        charges=(Charge(EC2, 12),),
        group="spot",
    ),
    Step(
        "transform",
        f"transform handler --name {PREFIX}transform --framework pytorch --input rows --output {{results}} --instance-type {SAGEMAKER} {_JSON}",
        "a batch transform job runs, and its container's output can be read",
        7,
        claims=(
            Claim("it is Completed", lambda r: r.document["status"] == "Completed"),
            Claim("it shows the handler's output", lambda r: bool(printed_by_handler(r))),
        ),
        reads={
            "transform-driver": lambda r: {
                **printed_by_handler(r),
                "host_image": member(r.earlier["plan-transform"], "TransformAmiVersion"),
            }
        },
        confirms=("transform-logs",),
        charges=(Charge(SAGEMAKER, 5),),
        group="transform",
    ),
    Step(
        "spot-runs",
        f"show {{spot-start}} {_JSON}",
        "the script runs on the spot instance",
        1,
        claims=(Claim("the script has started", lambda r: r.document["run"]["script_started"] is not None),),
        within=10,
        group="spot",
    ),
    Step(
        "spot",
        f"stop {{spot-start}} {_JSON}",
        "a tag on a running instance stops the script",
        3,
        claims=(Claim("it is Stopped", lambda r: r.document["runs"][0]["status"] == "Stopped"),),
        confirms=("ec2-stop-tag",),
        group="spot",
    ),
    Step(
        "endpoint-ttl",
        f"cleanup --gpuproof --kind endpoint {_JSON}",
        "the schedule has deleted the scaled endpoint",
        4,
        claims=(Claim("the endpoint is gone", lambda r: not has_resource(r, "endpoint", ENDPOINT)),),
        confirms=("endpoint-ttl",),
        within=40,
        due_in=40,
        group="endpoint",
    ),
    Step(
        "endpoint-end",
        f"delete {ENDPOINT} --yes {_JSON}",
        "its configuration, model and schedule are deleted",
        0.1,
        group="endpoint",
    ),
    Step(
        "tensorflow",
        f"deploy {{sagemaker}} --name {TENSORFLOW} --framework tensorflow {_DEPLOY}",
        "AWS's TensorFlow image serves a model that stays in S3, on the GPU",
        9,
        claims=(_ENDPOINT_ON_GPU,),
        confirms=("endpoint-tensorflow",),
        charges=(Charge(SAGEMAKER, 11),),
        group="tensorflow",
    ),
    Step(
        "tensorflow-predict",
        f"predict {TENSORFLOW} --data rows/rows.json {_JSON}",
        "the handler is beside the model's data",
        0.1,
        claims=(
            Claim(
                "the code is where AWS mounts it", lambda r: r.document["predictions"][0]["json"]["sources"]
            ),
        ),
        confirms=("endpoint-model-source",),
        group="tensorflow",
    ),
    Step(
        "tensorflow-end",
        f"delete {TENSORFLOW} --yes {_JSON}",
        "the endpoint is deleted",
        1,
        group="tensorflow",
    ),
    Step(
        "refused-pull",
        f"wait {{refused-pull-start}} {_JSON}",
        "what Docker says of an image that it may not have",
        0.1,
        code=1,
        claims=(Claim("the run has failed", lambda r: r.document["run"]["status"] == "Failed"),),
        reads={"ec2-refused-pull": lambda r: r.document["run"]["failure_reason"]},
        group="refused-pull",
    ),
    Step(
        "regions",
        f"cleanup --all-regions --gpuproof {_JSON}",
        "every enabled region can be read",
        1,
        claims=(Claim("no region refuses", lambda r: not r.document["problems"]),),
        confirms=("cleanup-regions",),
    ),
    Step("cost", f"cost --since 1d {_JSON}", "what the runs have cost", 0.1),
)

OTHER_USD = 0.30
"""Volumes, public addresses, requests, logs and storage of one run, rounded up."""


def total_usd(region: str) -> float:
    """What all steps cost at most, by list prices."""
    return OTHER_USD + sum(step.usd(region) for step in STEPS)
