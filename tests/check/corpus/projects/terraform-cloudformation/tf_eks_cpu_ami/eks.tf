resource "aws_eks_node_group" "system" {
  cluster_name    = var.cluster
  node_group_name = "system"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnets
  instance_types  = ["m6i.large"]

  scaling_config {
    desired_size = 2
    min_size     = 2
    max_size     = 3
  }
}

resource "aws_eks_node_group" "gpu" {
  cluster_name    = var.cluster
  node_group_name = "gpu"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnets
  ami_type        = "AL2_x86_64"
  instance_types  = ["g5.2xlarge"]
  capacity_type   = "SPOT"

  scaling_config {
    desired_size = 0
    min_size     = 0
    max_size     = 8
  }

  taint {
    key    = "nvidia.com/gpu"
    value  = "present"
    effect = "NO_SCHEDULE"
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }
}
