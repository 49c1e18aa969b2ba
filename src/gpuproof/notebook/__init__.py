"""The IPython extension: `%%gpu` shows what the GPUs did while a cell ran."""
