import lightning as L
from torch.utils.data import DataLoader
from wheat.fields import Fields
from wheat.module import WheatHeads

EPOCHS = 50

if __name__ == "__main__":
    train = DataLoader(Fields("data/train", True), batch_size=32, shuffle=True, num_workers=8)
    val = DataLoader(Fields("data/val", False), batch_size=64, num_workers=8)
    trainer = L.Trainer(max_epochs=EPOCHS, accelerator="auto", devices="auto", log_every_n_steps=20)
    trainer.fit(WheatHeads(max_epochs=EPOCHS), train, val)
