import torch

from app.mixer import mixer


def test_logits_have_one_row_per_image():
    with torch.no_grad():
        assert mixer(depth=1).eval()(torch.zeros(2, 3, 224, 224)).shape == (2, 10)
