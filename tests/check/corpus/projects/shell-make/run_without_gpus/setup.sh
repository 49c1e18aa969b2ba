#!/bin/bash
python3 -m venv .venv
. .venv/bin/activate
pip install torch>=2.4 torchvision
pip install -r requirements.txt
