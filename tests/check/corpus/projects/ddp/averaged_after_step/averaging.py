"""Synchronous SGD by hand, as in a course on distributed training: no wrapper, gradients are averaged explicitly."""
import torch
import torch.distributed as dist


def broadcast_parameters(model, src=0):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src)


def average_gradients(model):
    world = dist.get_world_size()
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= world
