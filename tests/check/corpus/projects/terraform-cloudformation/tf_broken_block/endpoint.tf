resource "aws_sagemaker_endpoint_configuration" "voices" {
  name = "voices"

  production_variants {
    variant_name           = "main"
    model_name             = var.model
    initial_instance_count = 1
    instance_type          = "ml.g4dn.xlarge"

}

resource "aws_sagemaker_endpoint" "voices" {
  name                 = "voices"
  endpoint_config_name = aws_sagemaker_endpoint_configuration.voices.name
}
