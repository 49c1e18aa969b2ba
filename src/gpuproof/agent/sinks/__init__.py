"""Passes the series and the summary of a run to experiment trackers and monitoring: W&B, MLflow, TensorBoard, Trackio, OTLP, Prometheus.

The agent computes a point every ten seconds (`series.py`, `metrics.py`) and writes it as a line of JSON to the pipe of a process for each
sink (`export.py`, `process.py`): `gpuproof-agent.pyz --sink`, which `main.py` runs. A sink with a package of the user's runs in the job's
own Python, so neither the agent nor the script imports it, and neither waits for it. Each sink is one file with a class `Writer`.
"""
