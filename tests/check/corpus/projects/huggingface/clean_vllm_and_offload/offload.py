"""One small GPU: what does not fit goes to the host's memory and the disk, slowly and on purpose."""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NAME = "mistralai/Mixtral-8x7B-Instruct-v0.1"


def main():
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    model = AutoModelForCausalLM.from_pretrained(
        NAME,
        torch_dtype=torch.bfloat16,
        device_map="auto",
        max_memory={0: "20GiB", "cpu": "60GiB"},
        offload_folder="/scratch/offload",
        low_cpu_mem_usage=True,
    )
    inputs = tokenizer("The tide tables of Saint-Malo show that", return_tensors="pt").to(0)
    ids = model.generate(**inputs, max_new_tokens=60)
    print(tokenizer.decode(ids[0], skip_special_tokens=True))


if __name__ == "__main__":
    main()
