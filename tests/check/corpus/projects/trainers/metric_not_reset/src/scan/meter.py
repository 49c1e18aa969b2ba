class Meter:
    """A running mean."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, value, count):
        self.total += value * count
        self.count += count

    @property
    def mean(self):
        return self.total / max(self.count, 1)
