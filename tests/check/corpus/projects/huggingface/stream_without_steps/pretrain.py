from datasets import load_dataset
from transformers import (
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

BLOCK = 1024


def main():
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    tokenizer.pad_token = tokenizer.eos_token
    web = load_dataset("HuggingFaceFW/fineweb-edu", "sample-10BT", split="train", streaming=True)

    def pack(rows):
        ids = []
        for text in rows["text"]:
            ids += [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        count = len(ids) // BLOCK * BLOCK
        return {"input_ids": [ids[i : i + BLOCK] for i in range(0, count, BLOCK)]}

    blocks = web.map(pack, batched=True, batch_size=256, remove_columns=web.column_names)
    blocks = blocks.shuffle(seed=0, buffer_size=10_000)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=768,
            intermediate_size=2048,
            num_hidden_layers=12,
            num_attention_heads=12,
            max_position_embeddings=BLOCK,
        )
    )
    args = TrainingArguments(
        output_dir="/data/llama-110m",
        num_train_epochs=1,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=8,
        learning_rate=6e-4,
        lr_scheduler_type="cosine",
        warmup_steps=500,
        weight_decay=0.1,
        bf16=True,
        torch_compile=True,
        save_steps=1000,
        logging_steps=20,
        dataloader_num_workers=4,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=blocks,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
