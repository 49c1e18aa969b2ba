import torch
from torch.nn.functional import cross_entropy, normalize

from tactile.base import BaseTrainer


class ContrastTrainer(BaseTrainer):
    def step(self, batch):
        touch = normalize(self.model.touch(batch["touch"]), dim=1)
        sight = normalize(self.model.sight(batch["sight"]), dim=1)
        scores = touch @ sight.T * self.model.scale.exp()
        target = torch.arange(len(scores), device=scores.device)
        return (cross_entropy(scores, target) + cross_entropy(scores.T, target)) / 2
