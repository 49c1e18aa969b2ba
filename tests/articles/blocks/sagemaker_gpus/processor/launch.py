import sagemaker
from sagemaker.processing import ProcessingInput, ProcessingOutput, ScriptProcessor

processor = ScriptProcessor(
    command=["python3"],
    image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/transform:1",
    role=sagemaker.get_execution_role(),
    instance_count=1,
    instance_type="ml.g5.2xlarge",
    base_job_name="transform",
)
processor.run(
    code="process.py",
    inputs=[
        ProcessingInput(
            source="s3://example-bucket/raw", destination="/opt/ml/processing/input", input_name="input_data"
        )
    ],
    outputs=[
        ProcessingOutput(
            source="/opt/ml/processing/output", destination="s3://example-bucket/done", output_name="done"
        )
    ],
)
