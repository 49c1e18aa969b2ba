from geo.tiles import Tiles
from geo.training import Run
from torch.utils.data import DataLoader

if __name__ == "__main__":
    run = Run(DataLoader(Tiles("/data/alps"), 16, shuffle=True, num_workers=6, pin_memory=True), kind="large")
    for number in range(40):
        print(number, run.epoch(), flush=True)
