terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.90.0"
    }
  }
}

provider "aws" {
  region = "us-west-2"
}

variable "role_arn" {
  type = string
}

resource "aws_sagemaker_model" "chat" {
  name               = "chat"
  execution_role_arn = var.role_arn

  primary_container {
    image = "763104351884.dkr.ecr.us-west-2.amazonaws.com/huggingface-pytorch-tgi-inference:2.1.1-tgi1.4.2-gpu-py310-cu121-ubuntu22.04"
    environment = {
      HF_MODEL_ID            = "google/gemma-2b-it"
      HUGGING_FACE_HUB_TOKEN = "hf_QwErTyUiOpAsDfGhJkLzXcVbNm01234567"
      MAX_INPUT_LENGTH       = "2048"
      MAX_TOTAL_TOKENS       = "4096"
    }
  }
}

resource "aws_sagemaker_endpoint_configuration" "chat" {
  name = "chat"

  production_variants {
    variant_name = "main"
    model_name   = aws_sagemaker_model.chat.name

    serverless_config {
      max_concurrency   = 5
      memory_size_in_mb = 6144
    }
  }
}

resource "aws_sagemaker_endpoint" "chat" {
  name                 = "chat"
  endpoint_config_name = aws_sagemaker_endpoint_configuration.chat.name
}
