#!/bin/bash
#SBATCH --gpus=2
#SBATCH --cpus-per-task=12
#SBATCH --time=05:00:00
set -e
accelerate launch --cpu --num_processes 2 main.py
