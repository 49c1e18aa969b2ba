from sagemaker.tensorflow import TensorFlow

estimator = TensorFlow(
    entry_point="train.py",
    source_dir=".",
    role="arn:aws:iam::123456789012:role/service-role/AmazonSageMaker-ExecutionRole-20240301T101500",
    instance_count=1,
    instance_type="ml.g5.12xlarge",
    framework_version="2.18",
    py_version="py310",
    hyperparameters={"epochs": 30, "layers": 3},
    max_run=3 * 3600,
)
estimator.fit({"train": "s3://energy-demand-features/v3/"})
