"""Values of expressions: constants, variables, command-line arguments and operators, within limits of size and steps."""
