import sagemaker
from sagemaker.huggingface import HuggingFace

role = sagemaker.get_execution_role()

estimator = HuggingFace(
    entry_point="finetune.py",
    source_dir="scripts",
    role=role,
    instance_count=1,
    instance_type="ml.g5.4xlarge",
    transformers_version="4.36.0",
    pytorch_version="2.1.0",
    py_version="py310",
    hyperparameters={
        "model_name": "distilbert-base-uncased",
        "epochs": 3,
        "fp16": "yes",
    },
    max_run=7200,
)
estimator.fit({"train": "s3://support-mail/labelled/"})
