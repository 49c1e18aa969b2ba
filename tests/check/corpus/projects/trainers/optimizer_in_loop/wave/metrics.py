class Accuracy:
    def __init__(self):
        self.reset()

    def reset(self):
        self.right = self.count = 0

    def update(self, logits, labels):
        self.right += int((logits.argmax(1) == labels).sum())
        self.count += len(labels)

    def value(self):
        return self.right / max(self.count, 1)
