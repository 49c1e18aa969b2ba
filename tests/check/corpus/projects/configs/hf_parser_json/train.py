import sys
from dataclasses import dataclass, field

from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)


@dataclass
class DataArguments:
    model_name: str = field(default="distilroberta-base")
    train_file: str = field(default="train.csv", metadata={"help": "A CSV file with the columns text and label."})


def main():
    parser = HfArgumentParser((DataArguments, TrainingArguments))
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        data_args, training_args = parser.parse_json_file(sys.argv[1])
    else:
        data_args, training_args = parser.parse_args_into_dataclasses()
    tokenizer = AutoTokenizer.from_pretrained(data_args.model_name)
    data = load_dataset("csv", data_files=data_args.train_file)["train"]
    data = data.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=384), batched=True)
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(data_args.model_name, num_labels=6),
        args=training_args,
        train_dataset=data,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    trainer.save_model(training_args.output_dir)


if __name__ == "__main__":
    main()
