"""Finds the GPU resources that an account is billed for now, and deletes what the user selects.

`inventory` reads the account and changes nothing. `selection` decides, without requests, what a command line selects;
`actions` which calls each resource takes; `delete` makes these calls and no others.
"""
