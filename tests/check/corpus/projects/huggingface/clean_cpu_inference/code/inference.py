import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

torch.set_num_threads(4)


def model_fn(model_dir):
    model = AutoModelForSequenceClassification.from_pretrained(model_dir)
    model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    return model, AutoTokenizer.from_pretrained(model_dir)


def predict_fn(data, loaded):
    model, tokenizer = loaded
    texts = data["inputs"]
    batch = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.inference_mode():
        scores = model(**batch).logits.softmax(dim=1)[:, 1]
    return [{"label": "spam" if score > 0.5 else "ham", "score": score} for score in scores.tolist()]
