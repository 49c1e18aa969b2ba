import os
from pathlib import Path

from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.pytorch.processing import PyTorchProcessor

HERE = Path(__file__).parent

processor = PyTorchProcessor(
    framework_version="2.3.0",
    py_version="py311",
    role=os.environ["PROCESSING_ROLE"],
    instance_count=1,
    instance_type="ml.g4dn.4xlarge",
    base_job_name="embed-images",
    max_runtime_in_seconds=4 * 3600,
)
processor.run(
    code="embed.py",
    source_dir=str(HERE / "scripts"),
    inputs=[ProcessingInput("s3://catalog-photos/2024/", "/opt/ml/processing/images")],
    outputs=[ProcessingOutput("/opt/ml/processing/embeddings", "s3://catalog-photos/embeddings/")],
    arguments=["--batch-size", "256"],
)
