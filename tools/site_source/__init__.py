"""Writes the sources of the documentation site: the pages of `docs/`, and those that are generated from the code.

`tools/build_site.py` stages all of them in one folder, of which a site generator makes HTML. No generated page is
checked in: each has one source, which the program itself uses.
"""
