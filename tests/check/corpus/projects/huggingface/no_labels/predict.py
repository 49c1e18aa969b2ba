import sys

from transformers import pipeline

stars = pipeline("text-classification", model="stars/final", tokenizer="roberta-base", device_map="auto")
reviews = [line.strip() for line in sys.stdin]
for result in stars(reviews, batch_size=32, truncation=True):
    print(result["label"])
