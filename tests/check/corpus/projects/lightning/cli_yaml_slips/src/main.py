import sys

from lightning.pytorch.cli import LightningCLI
from plants.data import Plants
from plants.model import PlantModel

if __name__ == "__main__":
    LightningCLI(PlantModel, Plants, args=["fit", *sys.argv[1:]], save_config_callback=None)
