"""Resources of CloudFormation and Terraform templates, with the line of each value."""
