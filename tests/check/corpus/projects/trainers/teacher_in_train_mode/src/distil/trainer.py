import torch
from torch.nn import functional as F


class DistillationTrainer:
    def __init__(self, teacher, student, temperature=4.0, weight=0.7, lr=1e-3):
        self.device = torch.device("cuda")
        self.teacher = teacher.to(self.device)
        self.student = student
        self.temperature, self.weight = temperature, weight
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=lr)

    def loss(self, images, labels):
        with torch.no_grad():
            target = self.teacher(images)
        logits = self.student(images.to(self.device))
        soft = F.kl_div(
            F.log_softmax(logits / self.temperature, dim=1),
            F.softmax(target / self.temperature, dim=1),
            reduction="batchmean",
        )
        return self.weight * soft * self.temperature**2 + (1 - self.weight) * F.cross_entropy(logits, labels)

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.student.train()
            for images, labels in loader:
                loss = self.loss(images.to(self.device), labels.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(epoch, loss.item(), flush=True)
