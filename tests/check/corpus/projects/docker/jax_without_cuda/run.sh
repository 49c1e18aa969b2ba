#!/bin/bash
docker build -t jax-moons . && docker run --rm --gpus all -v "$PWD:/out" jax-moons
