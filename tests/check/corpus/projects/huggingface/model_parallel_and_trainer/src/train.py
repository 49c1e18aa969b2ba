import os

import torch
from datasets import load_from_disk
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

NAME = "mistralai/Mistral-7B-v0.3"

quantization = BitsAndBytesConfig(load_in_8bit=True)
tokenizer = AutoTokenizer.from_pretrained(NAME)
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(NAME, quantization_config=quantization, torch_dtype=torch.bfloat16)
model = model.to("cuda")
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        output_dir="/opt/ml/checkpoints",
        num_train_epochs=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        learning_rate=2e-4,
        bf16=True,
        logging_steps=10,
        dataloader_num_workers=4,
        report_to="none",
    ),
    train_dataset=load_from_disk(os.environ["SM_CHANNEL_CHATS"]),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()
trainer.save_model("/tmp/adapter")
