import os

from sagemaker.processing import ProcessingInput, ProcessingOutput, ScriptProcessor

processor = ScriptProcessor(
    command=["python3"],
    image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker",
    role=os.environ["ROLE"],
    instance_count=1,
    instance_type="ml.g5.2xlarge",
    base_job_name="transform",
    max_runtime_in_seconds=3600,
)
processor.run(
    code="process.py",
    inputs=[
        ProcessingInput(source=os.environ["DATA"], destination="/opt/ml/processing/input", input_name="rows")
    ],
    outputs=[ProcessingOutput(source="/opt/ml/processing/output", output_name="sums")],
)
job = processor.latest_job.describe()
print("output:", job["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"])
