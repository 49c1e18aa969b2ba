#!/bin/bash
set -e
mpirun -np 4 --allow-run-as-root -bind-to none -x LD_LIBRARY_PATH python main.py --out /results/model.pt
