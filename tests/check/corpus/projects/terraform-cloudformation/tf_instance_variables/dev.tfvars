instance_type = "ml.g5.10xlarge"
model_name    = "faces-dev"
