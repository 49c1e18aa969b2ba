import torch
from distil.nets import make_student, make_teacher
from distil.trainer import DistillationTrainer
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

CLASSES = 200

if __name__ == "__main__":
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    data = datasets.ImageFolder("/data/birds/train", transform)
    loader = DataLoader(data, batch_size=96, shuffle=True, num_workers=8, pin_memory=True)
    teacher = make_teacher(CLASSES)
    teacher.load_state_dict(torch.load("teacher.pt", map_location="cpu", weights_only=True))
    student = make_student(CLASSES)
    DistillationTrainer(teacher, student).fit(loader, epochs=30)
    torch.save(student.state_dict(), "student.pt")
