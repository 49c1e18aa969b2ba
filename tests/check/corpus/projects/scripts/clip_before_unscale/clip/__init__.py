from clip.loss import contrastive_loss
from clip.model import TwoTower

__all__ = ["TwoTower", "contrastive_loss"]
