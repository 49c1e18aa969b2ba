import torch
import torch.nn.functional as F


def contrastive_loss(image, text, scale):
    image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
    logits = scale.exp() * image @ text.T
    labels = torch.arange(len(image), device=image.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
