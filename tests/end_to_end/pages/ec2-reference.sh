echo "print('trained')" > train.py
printf 'entry_point: train.py\nframework: pytorch\nresources: {gpu: "T4:1"}\n' > gpuproof.yaml
