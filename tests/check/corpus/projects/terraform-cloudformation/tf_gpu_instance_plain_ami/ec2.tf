provider "aws" {
  region = "us-east-1"
}

data "aws_ami" "ubuntu" {
  most_recent = true
  owners      = ["099720109477"]
  filter {
    name   = "name"
    values = ["ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"]
  }
}

resource "aws_security_group" "ssh" {
  name_prefix = "trainer-"
  ingress {
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = [var.office]
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_instance" "trainer" {
  ami           = data.aws_ami.ubuntu.id
  instance_type = "g5.xlarge"
  key_name      = var.key
  vpc_security_group_ids = [aws_security_group.ssh.id]

  root_block_device {
    volume_size = 150
    encrypted   = true
  }

  user_data = <<-EOT
    #!/bin/bash
    apt-get update && apt-get install -y python3-venv
    python3 -m venv /opt/venv
    . /opt/venv/bin/activate
    pip install torch --index-url https://download.pytorch.org/whl/cpu
    pip install lightning
  EOT

  tags = {
    Name = "trainer"
  }
}
