"""The client's methods for each AWS service: one class with typed methods for each, which `Aws` inherits.

Names of parameters and results are AWS's, converted to Python; documents are passed on as AWS returns them.
"""
