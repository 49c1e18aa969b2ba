"""SageMaker SDK v2: `ScriptProcessor.run`."""

import json
import sys
from pathlib import Path

from sagemaker.processing import ProcessingInput, ProcessingOutput, ScriptProcessor

role, image, data = sys.argv[1:]
processor = ScriptProcessor(
    role=role, image_uri=image, command=["python3"], instance_count=1, instance_type="ml.m5.xlarge"
)
processor.run(
    code=str(Path(__file__).parent / "source" / "process.py"),
    inputs=[ProcessingInput(source=data, destination="/opt/ml/processing/input")],
    outputs=[ProcessingOutput(output_name="counts", source="/opt/ml/processing/output")],
    arguments=["--fast"],
)
job = processor.latest_job.describe()
(output,) = job["ProcessingOutputConfig"]["Outputs"]
print(json.dumps({"status": job["ProcessingJobStatus"], "output": output["S3Output"]["S3Uri"]}))
