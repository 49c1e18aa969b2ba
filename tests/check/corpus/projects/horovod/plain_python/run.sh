#!/bin/bash
# Two hosts with four GPUs each.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4
#SBATCH --time=24:00:00
module load cuda/11.8 nccl
source ~/envs/hvd/bin/activate
python train.py --config unet.json
