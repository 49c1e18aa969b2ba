sed -i 's/epochs: .*/epochs: 1/' examples/pytorch-digits/gpuproof.yaml
