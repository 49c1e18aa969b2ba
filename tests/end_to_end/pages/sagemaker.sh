echo "print('trained')" > train.py
printf 'entry_point: train.py\nframework: pytorch\n' > gpuproof.yaml
