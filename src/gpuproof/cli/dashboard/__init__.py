"""The server of `gpuproof dashboard`: `access.py` admits requests, `routes.py` answers them, `assets/` is the browser's half.

It requires the extra `dashboard`, so that nothing else imports this package.
"""
