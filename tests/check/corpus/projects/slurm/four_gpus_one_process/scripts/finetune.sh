#!/bin/bash
#SBATCH --account=bio-lab
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=16
#SBATCH --time=06:00:00
cd "$SLURM_SUBMIT_DIR" || exit 1
source /opt/envs/torch/bin/activate
python finetune.py --images /data/cells --out "/data/runs/$SLURM_JOB_ID"
