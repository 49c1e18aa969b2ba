import torch


def pick(number):
    if torch.cuda.is_available:
        return torch.device("cuda", number)
    return torch.device("cpu")
