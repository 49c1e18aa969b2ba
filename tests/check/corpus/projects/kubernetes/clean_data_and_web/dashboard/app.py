"""Shows what nvidia-smi's exporter says; it imports torch for nothing but its version."""

import os

import requests
import torch
from flask import Flask, render_template_string

app = Flask(__name__)
PAGE = "<h1>{{ title }}</h1><pre>{{ metrics }}</pre><small>torch {{ version }}</small>"


@app.get("/")
def index():
    metrics = requests.get("http://dcgm-exporter:9400/metrics", timeout=5).text
    lines = [line for line in metrics.splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL")]
    return render_template_string(
        PAGE, title=os.environ["TITLE"], metrics="\n".join(lines), version=torch.__version__
    )
