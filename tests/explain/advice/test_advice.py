"""Causes made concrete by the log, the machine, the instance type and the account."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.explain import Context, Explanation, explain_lines

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of {total} of which 1.00 GiB is free."


def explained(context: Context, *lines: str) -> Explanation:
    return explain_lines(lines, context)[0]


@pytest.fixture
def a10g(catalogue: Catalogue) -> Context:
    """This machine: one A10G behind driver 550."""
    return Context(
        catalogue=catalogue,
        machine="this machine",
        driver="550.163.01",
        gpus=("NVIDIA A10G",),
        gpu_memory=23028 * 2**20,
        host_memory=16 * 2**30,
        shared_memory=64 * 2**20,
    )


def test_an_old_driver_gets_the_builds_minimum_and_the_builds_it_supports(a10g: Context) -> None:
    found = explained(
        a10g,
        "PyTorch version: 2.11.0+cu130",
        "The NVIDIA driver on your system is too old (found version 12040).",
    )
    assert "supports (up to 12.4)" in found.cause
    assert "torch 2.11: CUDA 13.0 requires driver 580" in (found.here or "")
    assert "this machine has 550.163.01" in (found.here or "")
    assert "pip install 'torch==2.11.*' --index-url https://download.pytorch.org/whl/cu126" in found.remedy


def test_an_image_whose_cuda_the_driver_does_not_serve(a10g: Context) -> None:
    found = explained(
        a10g, "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update"
    )
    assert found.here == "CUDA 13.0 requires driver 580 or later; this machine has 550.163.01."


def test_a_v100_with_the_default_wheel_of_torch_2_11_gets_a_build_that_runs(context: Context) -> None:
    found = explained(
        context.on_instance("p3dn.24xlarge"),
        "PyTorch version: 2.11.0+cu130",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    )
    assert "CUDA 12.9 is the last that supports V100-32GB" in (found.here or "")
    assert "pip install 'torch==2.11.*' --index-url https://download.pytorch.org/whl/cu126" in found.remedy


def test_the_gpu_of_the_message_counts_where_it_names_one(context: Context) -> None:
    found = explained(
        context,
        "PyTorch version: 2.6.0+cu124",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition with CUDA capability sm_120 is not compatible with the current"
        " PyTorch installation.",
    )
    assert "RTX-PRO-6000 (12.0)" in (found.here or "")


@pytest.mark.parametrize(
    ("instance_type", "next_one"), [("ml.g4dn.xlarge", "ml.g6.xlarge"), ("g5.12xlarge", "g6e.12xlarge")]
)
def test_full_memory_names_the_next_type_with_more(
    context: Context, instance_type: str, next_one: str
) -> None:
    found = explained(context.on_instance(instance_type), "CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert f"Next type with more GPU memory: {next_one}" in found.remedy


def test_the_total_of_the_message_is_nearer_than_the_catalogues(a10g: Context) -> None:
    assert "with 14.6 GiB" in (explained(a10g, OOM.format(total="14.58 GiB")).here or "")


def test_memory_lost_in_fragments_is_seen_in_the_numbers(context: Context) -> None:
    message = OOM.format(total="14.58 GiB") + " and 3.21 GiB is reserved by PyTorch but unallocated."
    assert explained(context, message).remedy.startswith("PYTORCH_CUDA_ALLOC_CONF")
    little = message.replace("3.21 GiB is reserved", "12.00 MiB is reserved")
    assert "PYTORCH_CUDA_ALLOC_CONF" not in explained(context, little).remedy


def test_a_quota_gets_the_command_that_requests_it(context: Context) -> None:
    found = explained(
        replace(context, region="eu-west-1"),
        "ResourceLimitExceeded: The account-level service limit 'ml.g5.xlarge for training job usage' is 1 Instances, with"
        " current utilization of 1 Instances and a request delta of 2 Instances.",
    )
    assert "aws service-quotas request-service-quota-increase" in found.remedy
    assert "--quota-code L-B6D80D9C --desired-value 3 --region eu-west-1" in found.remedy


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ml.g5.xlarge for spot training job usage", "'ml.g5.xlarge for spot training job usage'"),
        ("ml.g5.xlarge for training warm pool usage", "'ml.g5.xlarge for training warm pool usage'"),
        ("ml.g5.xlarge for endpoint usage", "'ml.g5.xlarge for endpoint usage'"),
        ("ml.g5.xlarge for notebook instance usage", "'ml.g5.xlarge for notebook instance usage'"),
        ("Studio JupyterLab Apps running on ml.g5.xlarge instances", "(L-988CE6C5)"),
    ],
)
def test_every_kind_of_quota_is_distinguished(context: Context, name: str, expected: str) -> None:
    found = explained(
        context,
        f"The account-level service limit '{name}' is 0 Instances, with current utilization of 0 Instances and a request"
        " delta of 1 Instances.",
    )
    assert expected in (found.here or "")


def test_a_vcpu_quota_counts_the_vcpus_of_the_type(context: Context) -> None:
    found = explained(
        context.on_instance("p4d.24xlarge"), "An error occurred (VcpuLimitExceeded) when calling"
    )
    assert "p4d.24xlarge counts 96 vCPUs" in (found.here or "")
    assert "L-417A185B --desired-value 96" in found.remedy


def test_a_type_that_cannot_serve_gets_its_uses(context: Context) -> None:
    found = explained(
        context,
        "Value 'ml.t3.medium' at 'productionVariants.1.member.instanceType' failed to satisfy constraint: Member must",
    )
    assert "not for endpoint" in (found.here or "")
    # A type without a GPU is replaced by types without one.
    assert "ml.c5.large" in found.remedy


def test_capacity_names_zones_regions_and_types(context: Context) -> None:
    found = explained(
        context,
        "(InsufficientInstanceCapacity) when calling the RunInstances operation: We currently do not have sufficient"
        " g6e.xlarge capacity in the Availability Zone you requested (us-west-2a).",
    )
    assert "in us-west-2" in (found.here or "")
    assert "Other types: " in found.remedy


def test_shared_memory_of_a_container_is_measured(a10g: Context) -> None:
    found = explained(a10g, "DataLoader worker (pid 143) is killed by signal: Bus error. It is possible that")
    assert found.here == "Size of /dev/shm on this machine: 64.0 MiB."


def test_a_module_of_another_package_is_named(context: Context) -> None:
    assert explained(context, "ModuleNotFoundError: No module named 'sklearn.svm'").remedy == (
        "echo scikit-learn >> requirements.txt"
    )


def test_an_unknown_module_is_most_likely_the_users_own_file(context: Context) -> None:
    found = explained(context, "ModuleNotFoundError: No module named 'my_layers'")
    assert "my_layers.py" in (found.here or "")
    assert "source_dir" in found.remedy


def test_the_channel_that_is_missing_is_named(context: Context) -> None:
    found = explained(
        context, "FileNotFoundError: No such file or directory: '/opt/ml/input/data/valid/x.csv'"
    )
    assert "--input valid=DATA" in found.remedy


def test_nothing_is_reported_about_an_unknown_machine(context: Context) -> None:
    assert explained(context, "RuntimeError: No CUDA GPUs are available").here is None


def test_a_log_that_names_its_instance_type_is_not_of_this_machine(a10g: Context) -> None:
    found = explained(
        a10g, "SM_CURRENT_INSTANCE_TYPE=ml.m5.xlarge", "RuntimeError: No CUDA GPUs are available"
    )
    assert "No GPU on ml.m5.xlarge" in (found.here or "")
    assert "ml.g4dn" in (found.here or "")


def test_an_unknown_instance_type_changes_nothing_else(a10g: Context) -> None:
    assert a10g.on_instance("q9.huge") == replace(a10g, instance_type="q9.huge")


def test_a_quota_for_a_retired_type_is_not_worth_asking_for(context: Context) -> None:
    found = explained(
        context,
        "The account-level service limit 'ml.p3.2xlarge for training job usage' is 0 Instances, with current utilization"
        " of 0 Instances and a request delta of 1 Instances.",
    )
    assert "ml.p3.2xlarge is retired and no longer available: use ml." in (found.here or "")


def test_a_missing_cuda_library_names_the_extension_and_its_cuda(context: Context) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 2, in <module>',
        "    import detectron2",
        '  File "/opt/conda/lib/python3.12/site-packages/detectron2/layers/deform_conv.py", line 9, in <module>',
        "    from detectron2 import _C",
        "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
    )
    assert "detectron2 was built for CUDA 11" in (found.here or "")
    assert "--force-reinstall detectron2" in found.remedy
    assert "tensorflow[and-cuda]" not in found.remedy


def test_a_missing_cuda_library_of_tensorflow_itself_keeps_its_remedy(context: Context) -> None:
    found = explained(
        context, "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0"
    )
    assert "tensorflow[and-cuda]" in found.remedy


@pytest.mark.parametrize(
    ("library", "symbol", "expected"),
    [
        ("torch/lib/libtorch_cuda.so", "ncclCommWindowRegister", "nvidia-nccl"),
        ("torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12", "__nvJitLinkAddData_12_1", "nvJitLink"),
        ("flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so", "_ZN3c104cuda9SetDeviceEa", "flash-attn"),
    ],
)
def test_a_missing_symbol_names_its_owner(context: Context, library: str, symbol: str, expected: str) -> None:
    found = explained(context, f"ImportError: /x/site-packages/{library}: undefined symbol: {symbol}")
    assert found.code == "cuda-libraries-clash"
    assert expected in found.remedy


@pytest.mark.parametrize(
    ("call", "name", "expected"),
    [
        ("TorchTrainer.fit", "workers", "PyDataset"),
        ("Trainer.__init__", "gpus", "devices=4"),
        ("TrainingArguments.__init__", "evaluation_strategy", "eval_strategy"),
        ("__init__", "dispatch_batches", "accelerate"),
        ("MyTrainer.compute_loss", "num_items_in_batch", "**kwargs"),
    ],
)
def test_an_argument_that_was_removed_gets_its_successor(
    context: Context, call: str, name: str, expected: str
) -> None:
    found = explained(context, f"TypeError: {call}() got an unexpected keyword argument '{name}'")
    assert found.code == "unexpected-argument"
    assert expected in found.remedy


def test_an_argument_of_the_users_own_function_gets_no_successor(context: Context) -> None:
    found = explained(context, "TypeError: run() got an unexpected keyword argument 'workers'")
    assert found.here is None


def test_an_old_hosting_driver_gets_the_versions_that_are_newer(context: Context) -> None:
    line = "pynvml.NVMLError_FunctionNotFound: Function Not Found"
    found = explained(context.on_instance("ml.g5.xlarge"), line)
    assert "have driver 470" in (found.here or "")
    assert "al2023-ami-sagemaker-inference-gpu-4-1 (driver 580)" in found.remedy
    assert "InferenceAmiVersion" not in explained(context.on_instance("g5.xlarge"), line).remedy
    training = replace(context.on_instance("ml.g5.xlarge"), job_kind="training")
    assert "InferenceAmiVersion" not in explained(training, line).remedy


@pytest.mark.parametrize("kind", ["training", "processing"])
def test_a_driver_too_old_in_a_training_job_has_a_remedy_that_the_job_can_apply(
    context: Context, kind: Literal["training", "processing"]
) -> None:
    job = replace(context.on_instance("ml.g5.xlarge"), job_kind=kind, gpu_expected=True)
    found = explained(job, "The NVIDIA driver on your system is too old (found version 11040).")
    assert f"No request chooses the driver of a {kind} job" in (found.here or "")
    assert "--framework-version" in found.remedy
    assert "/usr/local/cuda/compat" in found.remedy
    assert "AMI" not in found.remedy
    refused = explained(job, "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0")
    assert "--framework-version" in refused.remedy
    assert "/usr/local/cuda/compat" not in refused.remedy


@pytest.mark.parametrize(
    ("reason", "code", "expected"),
    [
        ("Insufficient disk space", "artifact-too-large", "volume"),
        ("Unable to upload (AccessDenied: Access Denied)", "artifact-upload-denied", "s3:PutObject"),
        ("Please ensure that the subnet's route table has a route to S3", "s3-no-route", "endpoint"),
        ("Something else", "s3-upload-failed", "The reason in parentheses"),
    ],
)
def test_each_reason_of_a_family_has_its_remedy(
    context: Context, reason: str, code: str, expected: str
) -> None:
    found = explained(context, f"Failed. Reason: ClientError: Artifact upload failed:{reason}")
    assert found.code == code
    assert expected in found.remedy
    assert code == "artifact-upload-denied" or "s3:PutObject" not in found.remedy


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ImportError: cannot import name 'AdamW' from 'transformers' (/x/__init__.py)", "torch.optim"),
        (
            "ImportError: cannot import name 'TFBertModel' from 'transformers' (/x/__init__.py)",
            "PyTorch class",
        ),
        ("ModuleNotFoundError: No module named 'torch._six'", "pip install -U"),
    ],
)
def test_a_name_that_was_removed_gets_its_successor(context: Context, line: str, expected: str) -> None:
    assert expected in explained(context, line).remedy


def test_a_name_that_never_was_in_the_package_gets_none(context: Context) -> None:
    line = "ImportError: cannot import name 'AdamW2' from 'transformers' (/x/__init__.py)"
    assert explained(context, line).here is None


def test_a_missing_cudnn_names_the_library_that_needs_it(context: Context) -> None:
    line = (
        "/opt/app/libtorch_cuda.so: libcudnn.so.8: cannot open shared object file: No such file or directory"
    )
    found = explained(context, line)
    assert "libtorch_cuda.so needs cuDNN 8" in (found.here or "")
    assert "nvidia-cudnn-cu12==8.*" in found.remedy


def attribute_error(path: str) -> list[str]:
    return [
        "Traceback (most recent call last):",
        f'  File "{path}", line 12, in fit',
        "    self.scaler.step_all()",
        "AttributeError: 'GRPOTrainer' object has no attribute 'step_all'",
    ]


def test_an_attribute_that_an_installed_package_misses_is_a_clash_of_versions(context: Context) -> None:
    found = explained(context, *attribute_error("/opt/conda/lib/python3.12/site-packages/trl/grpo.py"))
    assert found.code == "packages-mismatch"
    assert "pip install -U trl transformers" in found.remedy


def test_an_attribute_that_the_script_misses_is_the_scripts_own_error(context: Context) -> None:
    found = explained(context, *attribute_error("/opt/ml/code/train.py"))
    assert found.code == "exception-attribute"
    assert "train.py, line 12 (self.scaler.step_all()) raised it" in (found.here or "")


def test_none_in_an_installed_package_is_no_clash_of_versions(context: Context) -> None:
    lines = attribute_error("/opt/conda/lib/python3.12/site-packages/trl/grpo.py")
    found = explained(context, *[line.replace("GRPOTrainer", "NoneType") for line in lines])
    assert found.code == "exception-none"


def test_a_missing_part_of_torch_names_the_package_that_was_built_for_another_one(context: Context) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        '  File "/opt/conda/lib/python3.12/site-packages/mmcv/ops/roi_align.py", line 5, in <module>',
        "    from .. import _ext",
        "ImportError: libtorch_cuda_cu.so: cannot open shared object file: No such file or directory",
    )
    assert found.here == "mmcv was built for another torch than the one that is installed."
    assert "--no-build-isolation mmcv" in found.remedy


def test_a_module_that_is_missing_while_a_package_is_built_is_a_matter_of_isolation(context: Context) -> None:
    found = explained(
        context,
        "  Getting requirements to build wheel ... error",
        '        File "/tmp/pip-build-env-1/lib/python3.10/site-packages/setuptools/build_meta.py", line 317, in run_setup',
        "          exec(code, locals())",
        '        File "<string>", line 22, in <module>',
        "      ModuleNotFoundError: No module named 'torch'",
    )
    assert found.code == "module-not-found"
    assert "--no-build-isolation" in found.remedy


def test_a_driver_that_is_too_old_on_an_endpoint_names_the_ami_version(catalogue: Catalogue) -> None:
    line = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."
    found = explained(Context(catalogue=catalogue).on_instance("ml.g4dn.xlarge"), line)
    assert "InferenceAmiVersion" in found.remedy
    assert (
        "InferenceAmiVersion"
        not in explained(Context(catalogue=catalogue).on_instance("g4dn.xlarge"), line).remedy
    )


def test_the_ami_version_has_the_cuda_that_the_container_requires(catalogue: Catalogue) -> None:
    line = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.9, please update your driver"
    found = explained(Context(catalogue=catalogue).on_instance("ml.g5.xlarge"), line)
    assert "al2023-ami-sagemaker-inference-gpu-4-1" in found.remedy
    assert "gpu-3-1" not in found.remedy


def test_a_driver_that_the_container_complains_about_explains_what_fails_later(context: Context) -> None:
    (found,) = explain_lines(
        [
            "This container was built for NVIDIA Driver Release 575.51 or later, but",
            "version 470.256.02 was detected and compatibility mode is UNAVAILABLE.",
            "Internal: CUDA driver version is insufficient for CUDA runtime version",
        ],
        context,
    )
    assert found.code == "container-driver-too-old"


def test_a_frame_in_module_py_is_no_prefix_of_a_checkpoint(context: Context) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        '  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 2215, in load_state_dict',
        "RuntimeError: Error(s) in loading state_dict for Net:",
        "\tsize mismatch for fc.weight: copying a param with shape torch.Size([10, 8]) from checkpoint",
    )
    assert found.code == "torch-state-dict"
    assert "keys start with" not in found.cause


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            '{\n  "code":424,\n  "message":"prediction failure",\n  "error":"token 7 is unknown"\n}',
            "token 7 is unknown.",
        ),
        ('{"code":424,"message":"prediction failure","error":"token 7 is unknown."}', "token 7 is unknown."),
        (
            '{\n  "code": 400,\n  "type": "BadRequestException",\n  "message": "model_name is required."\n}',
            "is required.",
        ),
        ('{"object":"error","message":"at most 4096 tokens","code":400}', "at most 4096 tokens."),
        ("local variable referenced", "local variable referenced."),
    ],
)
def test_an_endpoints_answer_contains_what_the_model_said(context: Context, body: str, said: str) -> None:
    log = (
        "botocore.errorfactory.ModelError: An error occurred (ModelError) when calling the InvokeEndpoint operation: "
        f'Received server error (424) from primary with message "{body}". See https://console.aws.amazon.com'
    )
    found = explained(context, *log.split("\n"))
    assert found.code == "endpoint-model-error"
    assert found.cause.endswith(said)


def test_a_part_that_a_package_does_not_have_is_not_a_missing_package(context: Context) -> None:
    log = (
        "[INFO ] PyProcess - W-124-model-stdout: Traceback (most recent call last):\n"
        '[INFO ] PyProcess - W-124-model-stdout:   File "/tmp/.djl.ai/python/0.36.0/djl_python/chat.py", line 24, in <module>\n'
        "[INFO ] PyProcess - W-124-model-stdout:     from vllm.entrypoints.openai.protocol import Request\n"
        "[INFO ] PyProcess - W-124-model-stdout: ModuleNotFoundError: No module named 'vllm.entrypoints.openai.protocol'\n"
    )
    found = explained(context, *log.splitlines())
    assert found.code == "module-not-found"
    assert "djl_python was written for another version of vllm" in str(found)


@pytest.mark.parametrize(
    ("caller", "fix"),
    [
        (
            '/env/lib/python3.10/site-packages/trl/trainer/sft_trainer.py", line 401, in __init__',
            "pip install -U trl",
        ),
        (
            '/env/lib/python3.10/site-packages/transformers/utils/deprecation.py", line 165, in wrapped_func',
            "Trainer(",
        ),
        ('/home/me/train.py", line 9, in <module>', "Trainer("),
    ],
)
def test_an_argument_that_a_package_passes_is_no_fault_of_the_script(
    context: Context, caller: str, fix: str
) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 9, in <module>',
        "    trainer = SFTTrainer(",
        f'  File "{caller}',
        "    super().__init__(",
        "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'",
    )
    assert found.remedy.startswith(fix)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/env/lib/python3.11/site-packages/peft/peft_model.py", "peft was written for another transformers"),
        (
            "/root/.cache/huggingface/modules/transformers_modules/nvidia/Hymba/ab12/modeling_hymba.py",
            "The model's own code (trust_remote_code) imports it",
        ),
        ("/home/me/train.py", "transformers 5 removed this cache class"),
    ],
)
def test_who_imports_a_name_that_is_gone_gets_the_advice(context: Context, path: str, expected: str) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        f'  File "{path}", line 37, in <module>',
        "    from transformers import Cache, HybridCache",
        "ImportError: cannot import name 'HybridCache' from 'transformers' (/env/transformers/__init__.py)",
    )
    assert expected in (found.here or "")


@pytest.mark.parametrize(
    ("module", "name", "here", "remedy"),
    [
        (
            "transformers.modeling_utils",
            "apply_chunking_to_forward",
            "no longer has apply_chunking_to_forward there, but in transformers.pytorch_utils",
            "from transformers.pytorch_utils import apply_chunking_to_forward",
        ),
        (
            "transformers.generation.logits_process",
            "LogitsWarper",
            "LogitsProcessor took its place",
            "from transformers import LogitsProcessor",
        ),
        (
            "transformers.modeling_utils",
            "shard_checkpoint",
            "no longer has shard_checkpoint",
            "transformers==",
        ),
    ],
)
def test_names_that_transformers_moved_or_removed(
    context: Context, module: str, name: str, here: str, remedy: str
) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 3, in <module>',
        f"    from {module} import {name}",
        f"ImportError: cannot import name '{name}' from '{module}' (/env/transformers/__init__.py)",
    )
    assert here in (found.here or "")
    assert remedy in found.remedy


def test_override_of_the_user_that_a_package_calls_with_a_new_argument(context: Context) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 30, in <module>',
        "    trainer.train()",
        '  File "/env/lib/python3.10/site-packages/transformers/trainer.py", line 2918, in _maybe_log_save_evaluate',
        "    self._save_checkpoint(model, trial, metrics=metrics)",
        "TypeError: MyTrainer._save_checkpoint() got an unexpected keyword argument 'metrics'",
    )
    assert "transformers calls _save_checkpoint() with metrics" in (found.here or "")
    assert "super()._save_checkpoint(…, **kwargs)" in found.remedy


def test_argument_that_the_user_passes_through_a_package_is_not_blamed_on_it(context: Context) -> None:
    found = explained(
        context,
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 30, in <module>',
        "    model(x, mask=m)",
        '  File "/env/lib/python3.10/site-packages/peft/peft_model.py", line 18, in forward',
        "    return self.base_model(*args, **kwargs)",
        "TypeError: MyModel.forward() got an unexpected keyword argument 'mask'",
    )
    assert "installed package" not in (found.here or "")


def test_image_that_asks_for_a_cuda_version_needs_the_driver_of_that_version(context: Context) -> None:
    found = explained(
        context,
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
    )
    assert "CUDA 12.8 requires driver 570 or later" in (found.here or "")
