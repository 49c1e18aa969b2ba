provider "aws" {
  region = "us-east-1"
}

variable "role_arn" {
  type = string
}

resource "aws_sagemaker_pipeline" "speech" {
  pipeline_name         = "speech"
  pipeline_display_name = "speech"
  role_arn              = var.role_arn
  pipeline_definition = jsonencode({
    Version = "2020-12-01"
    Steps = [{
      Name = "Train"
      Type = "Training"
      Arguments = {
        RoleArn = var.role_arn
        AlgorithmSpecification = {
          TrainingImage     = "123456789012.dkr.ecr.us-east-1.amazonaws.com/speech:3"
          TrainingInputMode = "File"
        }
        OutputDataConfig = { S3OutputPath = "s3://speech-123456789012/models" }
        ResourceConfig = {
          InstanceType   = "ml.g5.2large"
          InstanceCount  = 1
          VolumeSizeInGB = 100
        }
        StoppingCondition = { MaxRuntimeInSeconds = 14400 }
      }
    }]
  })
}

resource "aws_cloudwatch_event_rule" "weekly" {
  name                = "speech-weekly"
  schedule_expression = "cron(0 4 ? * SUN *)"
}

resource "aws_cloudwatch_event_target" "pipeline" {
  rule     = aws_cloudwatch_event_rule.weekly.name
  arn      = aws_sagemaker_pipeline.speech.arn
  role_arn = var.role_arn
}
