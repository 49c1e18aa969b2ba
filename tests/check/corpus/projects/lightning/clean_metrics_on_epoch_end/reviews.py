import pytorch_lightning as pl
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding


class Reviews(pl.LightningDataModule):
    def __init__(self, name="distilbert-base-uncased", batch_size=64):
        super().__init__()
        self.name, self.batch_size = name, batch_size

    def prepare_data(self):
        load_dataset("imdb")
        AutoTokenizer.from_pretrained(self.name)

    def setup(self, stage=None):
        self.tokenizer = AutoTokenizer.from_pretrained(self.name)
        data = load_dataset("imdb").map(
            lambda rows: self.tokenizer(rows["text"], truncation=True, max_length=256),
            batched=True,
            remove_columns=["text"],
        )
        self.data = data.rename_column("label", "labels")

    def loader(self, split, shuffle=False):
        return DataLoader(
            self.data[split],
            batch_size=self.batch_size,
            shuffle=shuffle,
            num_workers=4,
            collate_fn=DataCollatorWithPadding(self.tokenizer),
        )

    def train_dataloader(self):
        return self.loader("train", shuffle=True)

    def val_dataloader(self):
        return self.loader("test")
