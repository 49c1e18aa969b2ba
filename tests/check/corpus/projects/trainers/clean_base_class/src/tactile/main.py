import torch
from torch.utils.data import DataLoader, Dataset

from tactile.contrast import ContrastTrainer
from tactile.models import TouchSight


class Pairs(Dataset):
    def __init__(self, path):
        self.rows = torch.load(path, map_location="cpu", weights_only=True)

    def __len__(self):
        return len(self.rows["touch"])

    def __getitem__(self, index):
        return {name: values[index].float() for name, values in self.rows.items()}


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = TouchSight().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    trainer = ContrastTrainer(model, optimizer, device, accumulate=2)
    train = DataLoader(Pairs("data/train.pt"), 128, shuffle=True, num_workers=4, drop_last=True, pin_memory=True)
    val = DataLoader(Pairs("data/val.pt"), 128, num_workers=4)
    for epoch, loss, score in trainer.run(train, val, epochs=40):
        print(epoch, f"{loss:.4f}", f"{score:.4f}")
    torch.save(model.state_dict(), "tactile.pt")


if __name__ == "__main__":
    main()
