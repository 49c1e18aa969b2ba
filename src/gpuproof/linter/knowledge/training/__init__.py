"""How programs train: models and their results, losses, optimizers, gradients."""
