import torch
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("/weights", src_lang="eng_Latn")
model = AutoModelForSeq2SeqLM.from_pretrained("/weights", torch_dtype=torch.float16).to("cuda")
app = FastAPI()


class Request(BaseModel):
    texts: list[str]
    target: str = "cym_Latn"


@app.post("/translate")
def translate(request: Request):
    batch = tokenizer(request.texts, return_tensors="pt", padding=True, truncation=True).to("cuda")
    ids = model.generate(
        **batch, forced_bos_token_id=tokenizer.convert_tokens_to_ids(request.target), max_new_tokens=256
    )
    return {"texts": tokenizer.batch_decode(ids, skip_special_tokens=True)}
