#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=10
#SBATCH --time=08:00:00
srun python train.py optimiser.lr=0.0005 trainer.max_epochs=60
