"""Looks at this machine's GPU stack from the bottom up and says what is true of it.

A check is one file: a reader that touches the machine and a pure `evaluate` that turns its reading into findings.
`stack/` has those that stand on each other, `surroundings/` those that stand on nothing; `runner.py` asks them and
stops above a layer that is broken; `formats/` writes down what was found.
"""
