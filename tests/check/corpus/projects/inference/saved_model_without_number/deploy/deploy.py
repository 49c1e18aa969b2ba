import os
import sys
from pathlib import Path

from sagemaker.tensorflow import TensorFlow

ROOT = Path(__file__).resolve().parent.parent


def run(bucket):
    estimator = TensorFlow(
        entry_point="train.py",
        source_dir=str(ROOT / "train"),
        role=os.environ["ROLE_ARN"],
        framework_version="2.16",
        py_version="py310",
        instance_count=1,
        instance_type="ml.g4dn.xlarge",
        hyperparameters={"epochs": 30},
        max_run=7200,
    )
    estimator.fit({"train": f"s3://{bucket}/train", "validation": f"s3://{bucket}/validation"})
    predictor = estimator.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    try:
        print(predictor.predict({"instances": [[[[0.0] * 3] * 160] * 160]}))
    finally:
        predictor.delete_endpoint()


if __name__ == "__main__":
    run(sys.argv[1])
