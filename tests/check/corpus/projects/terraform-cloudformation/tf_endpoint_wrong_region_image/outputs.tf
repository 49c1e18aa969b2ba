output "endpoint" {
  value = aws_sagemaker_endpoint.caption.name
}
