import argparse

import torch
import uvicorn
from fastapi import FastAPI, UploadFile
from transformers import pipeline

app = FastAPI()


@app.post("/transcribe")
async def transcribe(file: UploadFile):
    return app.state.pipe(await file.read(), chunk_length_s=30, batch_size=16)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="openai/whisper-small")
    args = parser.parse_args()
    app.state.pipe = pipeline(
        "automatic-speech-recognition", args.model, torch_dtype=torch.float16, device="cuda:0"
    )
    uvicorn.run(app, host="0.0.0.0", port=8000)
