import sys

import torch
from sr import Photos, SuperResolution
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = SuperResolution().to(device)
model.load_state_dict(torch.load(sys.argv[1], map_location=device, weights_only=True))
model.eval()
loader = DataLoader(Photos("/data/div2k/valid"), batch_size=16, num_workers=4)
errors = []
with torch.no_grad():
    for small, large in loader:
        difference = model(small.to(device)) - large.to(device)
        errors.append(difference.square().mean(dim=(1, 2, 3)))
mse = torch.cat(errors)
print("PSNR", (-10 * torch.log10(mse)).mean().item())
