"""Start the training job on SageMaker, with spot instances."""

import sagemaker
from sagemaker.inputs import TrainingInput
from sagemaker.tensorflow import TensorFlow

session = sagemaker.Session()
bucket = session.default_bucket()

estimator = TensorFlow(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::111122223333:role/SageMakerFlowers",
    framework_version="2.19",
    py_version="py312",
    instance_type="ml.g5.12xlarge",
    instance_count=1,
    hyperparameters={"epochs": 20, "batch-size": 96, "learning-rate": 0.002},
    model_dir=False,
    output_path=f"s3://{bucket}/flowers/models",
    checkpoint_s3_uri=f"s3://{bucket}/flowers/checkpoints",
    use_spot_instances=True,
    max_run=4 * 3600,
    max_wait=8 * 3600,
    sagemaker_session=session,
)
estimator.fit(
    {
        "train": TrainingInput(f"s3://{bucket}/flowers/train"),
        "validation": TrainingInput(f"s3://{bucket}/flowers/validation"),
    }
)
