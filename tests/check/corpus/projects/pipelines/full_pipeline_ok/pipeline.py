import sagemaker
from sagemaker.inputs import TrainingInput
from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.pytorch import PyTorch, PyTorchModel
from sagemaker.sklearn.processing import SKLearnProcessor
from sagemaker.workflow.model_step import ModelStep
from sagemaker.workflow.parameters import ParameterInteger, ParameterString
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import ProcessingStep, TrainingStep

session = PipelineSession()
role = sagemaker.get_execution_role()

input_data = ParameterString("InputData", default_value="s3://credit-fraud/raw/")
epochs = ParameterInteger("Epochs", default_value=10)

processor = SKLearnProcessor("1.2-1", role, 1, "ml.m5.xlarge", sagemaker_session=session)
step_process = ProcessingStep(
    "Preprocess",
    step_args=processor.run(
        code="steps/preprocess.py",
        inputs=[ProcessingInput(source=input_data, destination="/opt/ml/processing/input")],
        outputs=[ProcessingOutput(output_name="train", source="/opt/ml/processing/train")],
    ),
)
estimator = PyTorch(
    entry_point="train.py",
    source_dir="steps/training",
    role=role,
    framework_version="2.3.0",
    py_version="py311",
    instance_count=1,
    instance_type="ml.g5.2xlarge",
    hyperparameters={"epochs": epochs},
    sagemaker_session=session,
    max_run=7200,
)
train_data = step_process.properties.ProcessingOutputConfig.Outputs["train"].S3Output.S3Uri
step_train = TrainingStep("Train", step_args=estimator.fit({"train": TrainingInput(train_data)}))
model = PyTorchModel(
    model_data=step_train.properties.ModelArtifacts.S3ModelArtifacts,
    role=role,
    entry_point="inference.py",
    source_dir="steps/inference",
    framework_version="2.3.0",
    py_version="py311",
    sagemaker_session=session,
)
step_register = ModelStep(
    "Register",
    step_args=model.register(
        content_types=["application/x-npy"],
        response_types=["application/x-npy"],
        inference_instances=["ml.m5.large"],
        transform_instances=["ml.m5.large"],
        model_package_group_name="fraud",
        approval_status="PendingManualApproval",
    ),
)
pipeline = Pipeline("fraud", parameters=[input_data, epochs], steps=[step_process, step_train, step_register], sagemaker_session=session)

if __name__ == "__main__":
    pipeline.upsert(role_arn=role)
    pipeline.start()
