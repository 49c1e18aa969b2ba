"""SageMaker SDK v2: `TensorFlow(...).fit`."""

import json
import sys
from pathlib import Path

import sagemaker
from sagemaker.tensorflow import TensorFlow

role, data = sys.argv[1:]
estimator = TensorFlow(
    entry_point="train.py",
    source_dir=str(Path(__file__).parent / "source"),
    role=role,
    instance_count=1,
    instance_type="ml.g5.xlarge",
    framework_version="2.19",
    py_version="py312",
    hyperparameters={"epochs": 2, "name": "two words"},
    environment={"VARIABLE": "given"},
    metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
)
estimator.fit({"training": data})
job = estimator.latest_training_job.describe()
series = estimator.training_job_analytics.dataframe()
print(
    json.dumps(
        {
            "version": sagemaker.__version__,
            "status": job["TrainingJobStatus"],
            "job": job["TrainingJobName"],
            "model": estimator.model_data,
            "series": series[["metric_name", "value"]].values.tolist(),
            "metrics": {item["MetricName"]: item["Value"] for item in job["FinalMetricDataList"]},
        }
    )
)
