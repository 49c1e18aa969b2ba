"""Resources of CloudFormation and Terraform templates and pods of Kubernetes manifests, with the line of each value."""
