"""IAM policies: the permissions that GPUproof and its jobs need, and the sizes that IAM allows."""
