resource "aws_ecs_task_definition" "segment" {
  family                   = "segment"
  requires_compatibilities = ["EC2"]
  container_definitions = jsonencode([
    {
      name   = "segment"
      image  = "123456789012.dkr.ecr.us-west-2.amazonaws.com/segment:7"
      memory = 24000
      resourceRequirements = [
        { type = "GPU", value = "1" }
      ]
    }
  ])
}

resource "aws_ecs_task_definition" "tiler" {
  family                   = "tiler"
  requires_compatibilities = ["EC2"]
  container_definitions = jsonencode([
    {
      name        = "tiler"
      image       = "123456789012.dkr.ecr.us-west-2.amazonaws.com/segment:7"
      memory      = 4000
      command     = ["python", "tile.py"]
      environment = [{ name = "CUDA_VISIBLE_DEVICES", value = "" }]
    }
  ])
}
