"""Static analysis of Python: scopes, reaching definitions, values, types and imports; `flow/` follows values through a program."""
