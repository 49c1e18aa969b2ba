"""The IPython extension: what the GPUs did while a cell of a notebook ran.

`extension.py` has the magics and the events of a cell, the other modules turn reports into HTML with SVG, which every notebook shows
without widgets or scripts. The GPUs are sampled by a monitor process, so that a cell that holds the GIL is sampled too.
"""
