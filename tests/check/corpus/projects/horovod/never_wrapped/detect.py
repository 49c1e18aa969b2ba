import horovod.torch as hvd
import torch
from boxes import Boxes, collate
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision.models.detection import fasterrcnn_resnet50_fpn


def main():
    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    data = Boxes("/data/coco/train2017", "/data/coco/annotations/instances_train2017.json")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=8, collate_fn=collate)
    model = fasterrcnn_resnet50_fpn(num_classes=91).cuda()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4 * hvd.size())
    model.train()
    for epoch in range(12):
        sampler.set_epoch(epoch)
        for images, targets in loader:
            images = [image.cuda(non_blocking=True) for image in images]
            targets = [{name: value.cuda(non_blocking=True) for name, value in t.items()} for t in targets]
            loss = sum(model(images, targets).values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if hvd.rank() == 0:
            torch.save({"epoch": epoch, "model": model.state_dict()}, f"/data/out/{epoch}.pt")


if __name__ == "__main__":
    main()
