#!/bin/bash
set -e
accelerate launch --config_file accelerate_config.yaml --num_processes 8 distill.py
