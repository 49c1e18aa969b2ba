import torch


def build(folder):
    model = torch.nn.Linear(3, 1, bias=False)
    torch.nn.init.constant_(model.weight, 10.0)
    torch.jit.script(model).save(str(folder / "model.scripted.pt"))
