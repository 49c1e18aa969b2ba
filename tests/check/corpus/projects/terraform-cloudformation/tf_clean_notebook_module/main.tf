provider "aws" {
  region = "eu-central-1"
}

module "vision" {
  source          = "./modules/notebook"
  name            = "vision"
  role_arn        = "arn:aws:iam::123456789012:role/Notebooks"
  subnet_id       = "subnet-0f1e2d3c4b5a69788"
  security_groups = ["sg-0123456789abcdef0"]
  instance_type   = "ml.g5.xlarge"
}

module "reports" {
  source          = "./modules/notebook"
  name            = "reports"
  role_arn        = "arn:aws:iam::123456789012:role/Notebooks"
  subnet_id       = "subnet-0f1e2d3c4b5a69788"
  security_groups = ["sg-0123456789abcdef0"]
}
