import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import OxfordIIITPet
from torchvision.models.segmentation import fcn_resnet50
from torchvision.transforms import v2

SIZE = (256, 256)


def prepare_mask(mask):
    return v2.functional.pil_to_tensor(v2.functional.resize(mask, SIZE, v2.InterpolationMode.NEAREST)).long()[0] - 1


def main():
    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    image = v2.Compose([v2.Resize(SIZE), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)])
    data = OxfordIIITPet(
        "/data", target_types="segmentation", transform=image, target_transform=v2.Lambda(prepare_mask)
    )
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=4, pin_memory=True, drop_last=True)
    model = fcn_resnet50(num_classes=3, weights_backbone="DEFAULT").cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4 * hvd.size())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    criterion = nn.CrossEntropyLoss()
    model.train()
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for images, masks in loader:
            loss = criterion(model(images.cuda(non_blocking=True))["out"], masks.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if hvd.rank() == 0:
            torch.save(model.state_dict(), "/data/fcn.pt")


if __name__ == "__main__":
    main()
