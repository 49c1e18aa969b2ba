"""The documentation page of each rule, built from its docstring, and the examples that are its tests."""
