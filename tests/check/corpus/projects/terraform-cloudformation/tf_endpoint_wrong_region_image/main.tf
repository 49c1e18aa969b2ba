data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["sagemaker.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "endpoint" {
  name               = "caption-endpoint"
  assume_role_policy = data.aws_iam_policy_document.assume.json
}

resource "aws_sagemaker_model" "caption" {
  name               = "caption"
  execution_role_arn = aws_iam_role.endpoint.arn

  primary_container {
    image          = "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-inference:2.1.0-transformers4.37.0-gpu-py310-cu118-ubuntu20.04"
    model_data_url = "s3://caption-models-eu/git-base/model.tar.gz"
    environment = {
      HF_TASK = "image-to-text"
    }
  }
}

resource "aws_sagemaker_endpoint_configuration" "caption" {
  name = "caption"

  production_variants {
    variant_name           = "main"
    model_name             = aws_sagemaker_model.caption.name
    initial_instance_count = 1
    instance_type          = "ml.g5.3xlarge"
  }
}

resource "aws_sagemaker_endpoint" "caption" {
  name                 = "caption"
  endpoint_config_name = aws_sagemaker_endpoint_configuration.caption.name
}
