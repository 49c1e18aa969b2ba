import torch
from datasets import load_dataset
from torch import nn
from torchvision.transforms import v2
from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

NAME = "facebook/dinov2-small"


class FocalTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        entropy = nn.functional.cross_entropy(outputs.logits, labels, reduction="none")
        loss = ((1 - torch.exp(-entropy)) ** 2 * entropy).mean()
        return (loss, outputs) if return_outputs else loss


def main():
    data = load_dataset("imagefolder", data_dir="/data/corrosion")
    names = data["train"].features["label"].names
    prepare = v2.Compose(
        [v2.ToImage(), v2.RandomResizedCrop(224), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.25])]
    )

    def transform(rows):
        return {"pixel_values": [prepare(image.convert("RGB")) for image in rows["image"]], "labels": rows["label"]}

    data = data.with_transform(transform)
    model = AutoModelForImageClassification.from_pretrained(
        NAME, num_labels=len(names), ignore_mismatched_sizes=True
    )
    model = model.half()
    trainer = FocalTrainer(
        model=model,
        args=TrainingArguments(
            output_dir="corrosion",
            remove_unused_columns=False,
            per_device_train_batch_size=32,
            num_train_epochs=10,
            fp16=True,
            dataloader_num_workers=8,
            report_to="none",
        ),
        train_dataset=data["train"],
    )
    trainer.train()
    trainer.save_model("corrosion/final")


if __name__ == "__main__":
    main()
