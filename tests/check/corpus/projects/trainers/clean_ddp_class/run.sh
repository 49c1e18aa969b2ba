#!/bin/bash
exec torchrun --standalone --nproc_per_node=gpu -m hands.run "$@"
