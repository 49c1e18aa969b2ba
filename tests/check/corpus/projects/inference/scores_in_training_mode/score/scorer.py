import torch

from .network import Wide


class Scorer:
    def __init__(self, weights, batch_size=65536):
        self.device = torch.device("cuda:0")
        self.batch_size = batch_size
        self.model = Wide()
        self.model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        self.model.to(self.device)

    @torch.inference_mode()
    def run(self, x):
        results = []
        for batch in x.split(self.batch_size):
            scores = self.model(batch.to(self.device))
            results.append(scores.cpu())
        return torch.cat(results)
