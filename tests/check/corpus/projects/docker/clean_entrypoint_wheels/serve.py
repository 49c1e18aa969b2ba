import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer

tokenizer = AutoTokenizer.from_pretrained("/models/phi")
model = AutoModelForCausalLM.from_pretrained(
    "/models/phi", torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2", device_map="cuda"
)
streamer = TextStreamer(tokenizer, skip_prompt=True)
messages = []
while text := input("> "):
    messages.append({"role": "user", "content": text})
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt").to(model.device)
    output = model.generate(ids, max_new_tokens=512, streamer=streamer)
    answer = tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
    messages.append({"role": "assistant", "content": answer})
