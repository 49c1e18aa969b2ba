# CPU and GPU groups side by side: each has the image that its hosts need.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5.80" }
  }
}

provider "aws" {
  region = "us-west-2"
}

data "aws_ssm_parameter" "gpu_ami" {
  name = "/aws/service/ecs/optimized-ami/amazon-linux-2/gpu/recommended/image_id"
}

data "aws_ssm_parameter" "cpu_ami" {
  name = "/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
}

resource "aws_launch_template" "gpu" {
  name_prefix   = "gpu-"
  image_id      = data.aws_ssm_parameter.gpu_ami.value
  instance_type = "g4dn.2xlarge"
  metadata_options {
    http_tokens = "required"
  }
}

resource "aws_launch_template" "cpu" {
  name_prefix   = "cpu-"
  image_id      = data.aws_ssm_parameter.cpu_ami.value
  instance_type = "c6i.2xlarge"
  metadata_options {
    http_tokens = "required"
  }
}

resource "aws_autoscaling_group" "hosts" {
  for_each            = { gpu = aws_launch_template.gpu.id, cpu = aws_launch_template.cpu.id }
  name                = "ecs-${each.key}"
  min_size            = 0
  max_size            = 4
  vpc_zone_identifier = var.subnets
  launch_template {
    id      = each.value
    version = "$Latest"
  }
}
