"""`gpuproof notebook`: one file for each of its commands, and `notebook.py` with their parser."""
