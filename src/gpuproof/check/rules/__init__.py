"""One file a rule. `README.md` tells how to write one; the examples in a rule's docstring are its tests."""
