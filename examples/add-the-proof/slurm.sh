#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# changed; was srun torchrun …
srun gpuproof watch --to /fsx/reports -- torchrun \
    --nnodes="$SLURM_NNODES" --nproc-per-node=8 --rdzv-backend=c10d \
    --rdzv-endpoint="$head:29500" --rdzv-id="$SLURM_JOB_ID" train.py
