from speech.fit import Fit
from speech.libri import collate, dataset
from speech.net import Wave2Letter
from torch.utils.data import DataLoader

if __name__ == "__main__":
    data = dataset("/data/speech")
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=8, collate_fn=collate)
    Fit(Wave2Letter(), loader, "/data/speech/last.pt")(epochs=25)
