"""`gpuproof setup`: what an account needs before its first run, what of it is there, and the calls that create or remove the rest.

`state` reads the account, `plan` decides, `execute` creates and `remove` deletes what `execute` has created, by its tag. `templates`
writes the same parts as CloudFormation and Terraform.
"""
