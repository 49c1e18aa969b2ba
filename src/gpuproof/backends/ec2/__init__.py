"""Runs jobs on EC2 instances with a Deep Learning AMI, which terminate themselves when the job ends."""
