#!/bin/bash
set -e
horovodrun -np 4 -H localhost:4 python -m nets.train
