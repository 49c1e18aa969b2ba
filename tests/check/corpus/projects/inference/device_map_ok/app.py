"""Gradio demo of a language model; Accelerate places the layers, inputs follow the model."""
import gradio as gr
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

NAME = "Qwen/Qwen2.5-1.5B-Instruct"
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForCausalLM.from_pretrained(NAME, torch_dtype=torch.bfloat16, device_map="auto")
moderation = pipeline("text-classification", model="unitary/toxic-bert", device=0 if torch.cuda.is_available() else -1)


def answer(message, history):
    if moderation(message, truncation=True)[0]["score"] > 0.9:
        return "I would rather not answer that."
    chat = [*history, {"role": "user", "content": message}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    inputs = tokenizer(text, return_tensors="pt").to(model.device)
    output = model.generate(**inputs, max_new_tokens=256, do_sample=True, temperature=0.7)
    return tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


if __name__ == "__main__":
    gr.ChatInterface(answer, type="messages").launch(server_name="0.0.0.0", server_port=7860)
