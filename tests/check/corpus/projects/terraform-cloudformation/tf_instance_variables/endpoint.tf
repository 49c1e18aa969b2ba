variable "region" {
  type    = string
  default = "eu-west-2"
}

variable "instance_type" {
  type    = string
  default = "g4dn.xlarge"
}

variable "model_name" {
  type = string
}

provider "aws" {
  region = var.region
}

resource "aws_sagemaker_endpoint_configuration" "this" {
  name_prefix = "faces-"

  production_variants {
    variant_name           = "main"
    model_name             = var.model_name
    initial_instance_count = 1
    instance_type          = var.instance_type
    initial_variant_weight = 1
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_sagemaker_endpoint" "this" {
  name                 = "faces"
  endpoint_config_name = aws_sagemaker_endpoint_configuration.this.name
}
