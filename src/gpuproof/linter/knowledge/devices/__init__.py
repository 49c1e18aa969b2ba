"""The devices of models, batches and tensors, and what a program chooses for them."""
