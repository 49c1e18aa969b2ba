#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --time=06:00:00
source ~/venvs/accel/bin/activate
accelerate launch --config_file accelerate_config.yaml train.py --data /scratch/sar
