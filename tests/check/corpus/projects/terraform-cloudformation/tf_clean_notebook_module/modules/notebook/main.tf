resource "aws_sagemaker_notebook_instance_lifecycle_configuration" "stop" {
  name = "${var.name}-stop"
  on_start = base64encode(templatefile("${path.module}/on_start.sh", {
    idle_seconds = var.idle_seconds
  }))
}

resource "aws_sagemaker_notebook_instance" "this" {
  name                    = var.name
  role_arn                = var.role_arn
  instance_type           = var.instance_type
  subnet_id               = var.subnet_id
  security_groups         = var.security_groups
  direct_internet_access  = "Disabled"
  root_access             = "Disabled"
  lifecycle_config_name   = aws_sagemaker_notebook_instance_lifecycle_configuration.stop.name
  platform_identifier     = "notebook-al2-v3"
  volume_size             = 100
  instance_metadata_service_configuration {
    minimum_instance_metadata_service_version = "2"
  }
}
