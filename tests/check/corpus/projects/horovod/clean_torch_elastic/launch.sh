#!/bin/bash
set -euo pipefail
horovodrun -np 4 --min-np 2 --max-np 8 --host-discovery-script ./hosts.sh python train_elastic.py
