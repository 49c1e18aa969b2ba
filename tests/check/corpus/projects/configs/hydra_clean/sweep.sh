#!/bin/bash
python train.py --multirun model.width=256,512 lr=0.001,0.0003 +note=widths
