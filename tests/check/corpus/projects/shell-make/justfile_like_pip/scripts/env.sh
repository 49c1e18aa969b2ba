#!/bin/sh
set -e
python3 -m venv "${VENV:-.venv}"
. "${VENV:-.venv}/bin/activate"
pip3 install --upgrade pip
pip3 install tensorflow>2.15 keras-cv
