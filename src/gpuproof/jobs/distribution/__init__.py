"""How a job is split into processes: the launchers, their model in a job, and the choice that `auto` makes.

`launchers.py` is the table of names; `spec.py` is the pydantic model of the key `distribution`; `script_use.py` finds what a script
uses, from which `choose.py` decides.
"""
