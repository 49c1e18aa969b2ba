"""Lightning validates or tests on the data that it trains on: the metric that chooses the model says nothing.

The same loader is passed twice, `val_dataloader` returns a loader of the training dataset, or both datasets are created by
the same call (`MNIST(root, train=True)`). Early stopping and ModelCheckpoint then follow the training loss: they keep an
overfitted model, and the run looks better than it is. Loaders that select by `sampler=` are not reported, nor are subsets.

Bad: the same loader twice

    import lightning as L
    from torch.utils.data import DataLoader
    from data import make_dataset
    from model import Net

    train_loader = DataLoader(make_dataset("train"), batch_size=64, num_workers=4, shuffle=True)
    val_loader = DataLoader(make_dataset("val"), batch_size=64, num_workers=4)
    L.Trainer(max_epochs=3).fit(Net(), train_loader, train_loader)  # <-

Bad: a data module

    import lightning as L
    from torch.utils.data import DataLoader, random_split

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set, self.val_set = random_split(self.dataset, [0.9, 0.1])

        def train_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, shuffle=True, num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, num_workers=4)  # <-

Bad: both are the training half of MNIST

    import lightning as L
    from torch.utils.data import DataLoader
    from torchvision.datasets import MNIST

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set = MNIST("data", train=True)
            self.val_set = MNIST("data", train=True)

        def train_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, shuffle=True, num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.val_set, batch_size=64, num_workers=4)  # <-

Good:

    import lightning as L
    from torch.utils.data import DataLoader
    from torchvision.datasets import MNIST

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set = MNIST("data", train=True)
            self.val_set = MNIST("data", train=False)

        def train_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, shuffle=True, num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.val_set, batch_size=64, num_workers=4)

Bad: a helper of the data module

    import lightning as L
    from torch.utils.data import DataLoader

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set, self.val_set = self.split()

        def loader(self, dataset, shuffle=False):
            return DataLoader(dataset, batch_size=64, shuffle=shuffle, num_workers=4)

        def train_dataloader(self):
            return self.loader(self.train_set, shuffle=True)

        def val_dataloader(self):
            return self.loader(self.train_set)  # <-

Quiet: a helper selects the part

    import lightning as L
    from torch.utils.data import DataLoader

    class Data(L.LightningDataModule):
        def loader(self, rows, part):
            return DataLoader(rows.of(part), batch_size=64, num_workers=4)

        def train_dataloader(self):
            return self.loader(self.rows, "train")

        def val_dataloader(self):
            return self.loader(self.rows, "val")

Quiet: samplers select

    import lightning as L
    from torch.utils.data import DataLoader, SubsetRandomSampler

    class Data(L.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(self.dataset, batch_size=64, sampler=SubsetRandomSampler(self.train_ids), num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.dataset, batch_size=64, sampler=SubsetRandomSampler(self.val_ids), num_workers=4)

Quiet: overfitting on purpose

    import lightning as L
    from model import Net, loader

    L.Trainer(max_epochs=3, overfit_batches=10).fit(Net(), loader, loader)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.shared_data import shared_data
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT104", "validation-on-training-data", Severity.WARNING, needs=("lightning",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    for shared in shared_data(module):
        metrics = f"the {shared.what} metrics are those of the training data."
        if shared.hook is None:
            message = (
                f"`fit` validates on `{module.text(shared.node)}`, which reads the data that it trains on."
            )
            remedy = "Pass a loader of data that training does not read."
        else:
            reads = (
                "returns the training loader"
                if shared.is_same_loader
                else "reads the dataset of `train_dataloader`"
            )
            message = f"`{shared.hook}` {reads}: {metrics}"
            remedy = "Return a loader of data that training does not read."
        yield rule.hit(module.span(shared.node), message, remedy=remedy)
