from torch import nn
from transformers import Trainer


class WeightedTrainer(Trainer):
    """Weights the classes; the Trainer moves model and batches, so only the weights have to follow."""

    def __init__(self, *args, weights, **kwargs):
        super().__init__(*args, **kwargs)
        self.weights = weights

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        criterion = nn.CrossEntropyLoss(weight=self.weights.to(outputs.logits.device))
        loss = criterion(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss
