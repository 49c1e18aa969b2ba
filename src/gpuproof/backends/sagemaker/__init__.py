"""SageMaker as a place: training and processing jobs, planned as data, submitted, followed and fetched with boto3."""
