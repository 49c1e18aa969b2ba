import torch

from train import network


def test_one_row_of_logits_for_each_point():
    assert network()(torch.zeros(3, 4)).shape == (3, 20)
