import torch.distributed as dist
from parallel.setup import setup
from parallel.trainer import ParallelTrainer
from torchvision import datasets, transforms
from torchvision.models import wide_resnet50_2

if __name__ == "__main__":
    device = setup()
    transform = transforms.Compose([transforms.RandomCrop(32, 4), transforms.ToTensor()])
    data = datasets.CIFAR100("/data/cifar", transform=transform)
    ParallelTrainer(wide_resnet50_2(num_classes=100), data, device).fit(60, "/data/wide.pt")
    dist.destroy_process_group()
