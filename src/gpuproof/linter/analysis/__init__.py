"""Static analysis of one Python module: scopes, reaching definitions, values, types and imports."""
