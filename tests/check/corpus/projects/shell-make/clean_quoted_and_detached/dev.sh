#!/usr/bin/env bash
python -m venv .venv
source .venv/bin/activate
pip install "torch>=2.3" 'sentence-transformers>=3,<4' fastapi uvicorn psycopg[binary]
pip list --format=freeze > requirements.lock
uvicorn api:app --reload >> dev.log 2>&1
