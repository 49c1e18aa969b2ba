import torch


class Prefetcher:
    """Copies the next batch on a stream of its own while the current one is computed."""

    def __init__(self, loader, device):
        self.loader, self.device = loader, device
        self.stream = torch.cuda.Stream(device)

    def __len__(self):
        return len(self.loader)

    def _copy(self, batch):
        with torch.cuda.stream(self.stream):
            return [part.to(self.device, non_blocking=True) for part in batch]

    def __iter__(self):
        batches = iter(self.loader)
        following = None
        for batch in batches:
            current, following = following, self._copy(batch)
            if current is not None:
                yield current
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
        if following is not None:
            yield following
