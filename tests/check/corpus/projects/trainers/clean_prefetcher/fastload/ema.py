import copy

import torch


class Ema:
    def __init__(self, model, decay=0.999):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.module.state_dict().values(), model.state_dict().values()):
            if mine.is_floating_point():
                mine.lerp_(theirs, 1 - self.decay)
            else:
                mine.copy_(theirs)
