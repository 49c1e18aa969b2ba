"""Copies the next batch to the GPU on a stream of its own while the current one is computed."""
import torch


class Prefetcher:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def __len__(self):
        return len(self.loader)

    def _move(self, batch):
        with torch.cuda.stream(self.stream):
            return tuple(part.to(self.device, non_blocking=True) for part in batch)

    def __iter__(self):
        iterator = iter(self.loader)
        following = self._move(next(iterator))
        while following is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            current = following
            for part in current:
                part.record_stream(torch.cuda.current_stream(self.device))
            try:
                following = self._move(next(iterator))
            except StopIteration:
                following = None
            yield current
