"""Finds everything in an account that costs GPU money now, and deletes what the user selects.

`inventory` reads the account and changes nothing. `selection` decides, without requests, what a command line selects;
`actions` which calls each resource takes; `delete` makes these calls and no others.
"""
