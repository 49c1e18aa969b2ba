"""Start the fine-tuning on SageMaker, and deploy the model."""

import sagemaker
from sagemaker.huggingface import HuggingFace

session = sagemaker.Session()
role = "arn:aws:iam::111122223333:role/SageMakerReviews"

huggingface_estimator = HuggingFace(
    entry_point="train.py",
    source_dir="scripts",
    role=role,
    transformers_version="4.49.0",
    pytorch_version="2.5.1",
    py_version="py311",
    instance_type="ml.g5.2xlarge",
    instance_count=1,
    base_job_name="reviews",
    hyperparameters={
        "model_name": "distilbert/distilbert-base-uncased",
        "epochs": 4,
        "train_batch_size": 48,
    },
    checkpoint_s3_uri=f"s3://{session.default_bucket()}/reviews/checkpoints",
    use_spot_instances=True,
    max_run=7200,
    max_wait=14400,
)
huggingface_estimator.fit(
    {
        "train": "s3://product-reviews/tokenized/train",
        "test": "s3://product-reviews/tokenized/test",
    }
)
