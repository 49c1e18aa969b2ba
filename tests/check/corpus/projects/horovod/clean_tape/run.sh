#!/bin/bash
horovodrun -np 4 python main.py
