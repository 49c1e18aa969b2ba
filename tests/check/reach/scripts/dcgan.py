"""Generator against discriminator."""

import argparse
import os
import random

import torch
import torch.nn as nn
import torch.utils.data
import torchvision.datasets as dset
import torchvision.transforms as transforms
import torchvision.utils as vutils

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", required=False, default="fake")
parser.add_argument("--niter", type=int, default=25)
parser.add_argument("--netG", default="", help="continue from these weights")
parser.add_argument("--outf", default=".", help="where samples and checkpoints go")
parser.add_argument("--manualSeed", type=int)
parser.add_argument("--accel", action="store_true", default=False)
parser.add_argument("--dry-run", action="store_true")
opt = parser.parse_args()
print(opt)
try:
    os.makedirs(opt.outf)
except OSError:
    pass
if opt.manualSeed is None:
    opt.manualSeed = random.randint(1, 10000)
torch.manual_seed(opt.manualSeed)
device = torch.device("cuda:0" if opt.accel else "cpu")
dataset = dset.FakeData(image_size=(3, 64, 64), transform=transforms.ToTensor())
dataloader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2)
netG = nn.Sequential(nn.Linear(100, 3 * 64 * 64), nn.Tanh()).to(device)
netD = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 1), nn.Sigmoid()).to(device)
if opt.netG != "":
    netG.load_state_dict(torch.load(opt.netG))
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4)
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4)
fixed = torch.randn(64, 100, device=device)

for epoch in range(opt.niter):
    for i, (images, _) in enumerate(dataloader, 0):
        netD.zero_grad()
        real = images.to(device)
        ones = torch.ones(real.size(0), 1, device=device)
        errD_real = criterion(netD(real), ones)
        errD_real.backward()
        fake = netG(torch.randn(real.size(0), 100, device=device)).view(-1, 3, 64, 64)
        errD_fake = criterion(netD(fake.detach()), torch.zeros_like(ones))
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        errG = criterion(netD(fake), ones)
        errG.backward()
        optimizerG.step()
        if i % 100 == 0:
            vutils.save_image(netG(fixed).detach().view(-1, 3, 64, 64), f"{opt.outf}/sample_{epoch:03d}.png")
        if opt.dry_run:
            break
    torch.save(netG.state_dict(), "%s/netG_epoch_%d.pth" % (opt.outf, epoch))
