"""`pipeline(...)` without a device runs on the CPU while the GPU of the instance is idle.

Before transformers 4.47, the default device of `pipeline` is the CPU; newer versions use the first GPU. The rule reports scripts of jobs and
endpoints with a GPU whose version is known to be older.

Bad:

    # file: deploy.py
    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py", source_dir=".",
        transformers_version="4.37.0", pytorch_version="2.1.0", py_version="py310",
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    predictor.delete_endpoint()
    # file: inference.py
    from transformers import pipeline

    def model_fn(model_dir):
        return pipeline("text-classification", model=model_dir)  # <-

    def predict_fn(data, model):
        return model(data["inputs"])

Good:

    # file: deploy.py
    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py", source_dir=".",
        transformers_version="4.37.0", pytorch_version="2.1.0", py_version="py310",
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    predictor.delete_endpoint()
    # file: inference.py
    from transformers import pipeline

    def model_fn(model_dir):
        return pipeline("text-classification", model=model_dir, device=0)

    def predict_fn(data, model):
        return model(data["inputs"])

Quiet: a newer version

    # file: deploy.py
    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py", source_dir=".",
        transformers_version="4.49.0", pytorch_version="2.6.0", py_version="py312",
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    predictor.delete_endpoint()
    # file: inference.py
    from transformers import pipeline

    def model_fn(model_dir):
        return pipeline("text-classification", model=model_dir)

    def predict_fn(data, model):
        return model(data["inputs"])
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.releases import is_at_least, library_versions
from gpuproof.linter.knowledge.trainers.tables import first_version
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("HF112", "pipeline-on-cpu", Severity.ERROR, needs=("pipeline",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = project.jobs_running(module)
    if not jobs or is_test(module) or not all(gpus_per_host(project, job) for job in jobs):
        return
    if is_at_least(module, project, "transformers", first_version("pipeline_on_gpu")) != "no":
        return
    versions = library_versions(module, project, "transformers")
    for call in calls_to(module, "transformers.pipeline"):
        if call.is_open or not (call.argument("device").is_absent and call.argument("device_map").is_absent):
            continue
        model = call.expression("model", 1)
        # A model that is already on the GPU stays there.
        if model is not None and any(made.method == "from_pretrained" for made in creations(module, model)):
            continue
        yield rule.hit(
            call.span,
            f"`pipeline` uses the CPU by default in {versions.text if versions is not None else 'this version of transformers'}: the GPU of "
            f"`{jobs[0].instance_type.text}` is idle.",
            remedy="Pass device=0.",
        )
