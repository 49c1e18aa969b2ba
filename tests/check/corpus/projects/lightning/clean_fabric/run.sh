#!/bin/bash
set -e
fabric run --accelerator cuda --devices 4 --strategy ddp --precision bf16-mixed train.py
