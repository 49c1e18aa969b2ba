"""What `bench/serve.py` is made of: the peers and how each starts, the model that all of them serve, and the report.

`handlers/` is copied into a folder of its own and runs inside the peers' virtual environments.
"""
