#!/bin/bash
docker build -t blur . && docker run --rm --gpus all -p 8000:8000 blur
