"""The rules, one file each. `README.md` explains how to write one; the examples in a docstring are its tests."""
