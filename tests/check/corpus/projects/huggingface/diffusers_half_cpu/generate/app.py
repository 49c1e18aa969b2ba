import io

import torch
from diffusers import StableDiffusionXLPipeline
from fastapi import FastAPI, Response
from pydantic import BaseModel

from generate.handler import learned_tokens

app = FastAPI()
pipe = StableDiffusionXLPipeline.from_pretrained(
    "stabilityai/stable-diffusion-xl-base-1.0", torch_dtype=torch.float16, variant="fp16", use_safetensors=True
)
for token, embedding in learned_tokens("/models/tokens"):
    pipe.load_textual_inversion(embedding, token=token)


class Request(BaseModel):
    prompt: str
    steps: int = 30
    seed: int = 0


@app.post("/images")
def images(request: Request):
    generator = torch.Generator("cpu").manual_seed(request.seed)
    image = pipe(request.prompt, num_inference_steps=request.steps, generator=generator).images[0]
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return Response(buffer.getvalue(), media_type="image/png")
