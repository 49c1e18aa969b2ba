"""Installs `requirements.txt` for one run, without replacing the framework of the image."""
