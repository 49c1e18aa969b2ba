import torch
from credit.fit import fit
from credit.pipeline import loaders

if __name__ == "__main__":
    train, test = loaders("/data/loans.parquet")
    model = fit(train, test, columns=train.dataset.tensors[0].shape[1])
    torch.save(model.state_dict(), "scorer.pt")
