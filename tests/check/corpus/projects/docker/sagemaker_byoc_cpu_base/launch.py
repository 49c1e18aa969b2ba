from sagemaker.estimator import Estimator

estimator = Estimator(
    image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/sales:4",
    role="arn:aws:iam::123456789012:role/Sales",
    instance_type="ml.g5.xlarge",
    instance_count=2,
    volume_size=50,
    max_run=7200,
    output_path="s3://sales-123456789012/models",
)
estimator.fit({"history": "s3://sales-123456789012/history"})
