import sagemaker
from sagemaker.huggingface import HuggingFace

session = sagemaker.Session()
bucket = session.default_bucket()

estimator = HuggingFace(
    entry_point="train.py",
    source_dir="ner",
    role="arn:aws:iam::123456789012:role/NerTraining",
    transformers_version="4.49.0",
    pytorch_version="2.5.1",
    py_version="py311",
    instance_type="ml.g5.xlarge",
    instance_count=1,
    hyperparameters={"base-model": "dslim/bert-base-NER", "epochs": 3},
)
estimator.fit({"conll": f"s3://{bucket}/conll2003"})
