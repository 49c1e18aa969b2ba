import torch
import torchaudio
from torch import nn
from torch.utils.data import DataLoader

SAMPLES = 32_000


def collate(rows):
    waves = torch.stack([nn.functional.pad(row[0][:, :SAMPLES], (0, max(0, SAMPLES - row[0].shape[1]))) for row in rows])
    return waves, torch.tensor([row[2] for row in rows])


def main():
    device = torch.device("cuda")
    voices = torchaudio.datasets.YESNO("/data", download=True)
    rows = [(wave, rate, labels[0]) for wave, rate, labels in voices]
    loader = DataLoader(rows, batch_size=16, shuffle=True, num_workers=2, collate_fn=collate)
    mel = torchaudio.transforms.MelSpectrogram(8000).to(device)
    net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2))
    net.to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(40):
        for waves, labels in loader:
            loss = nn.functional.cross_entropy(net(mel(waves.to(device))), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    torch.save(net.state_dict(), "/data/yesno.pt")


if __name__ == "__main__":
    main()
