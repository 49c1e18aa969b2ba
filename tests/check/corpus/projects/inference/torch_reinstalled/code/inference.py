import base64
import io

import torch
from diffusers import StableDiffusionPipeline


def model_fn(model_dir):
    pipe = StableDiffusionPipeline.from_pretrained(model_dir, torch_dtype=torch.float16, safety_checker=None)
    pipe.to("cuda")
    pipe.set_progress_bar_config(disable=True)
    return pipe


def predict_fn(data, pipe):
    prompt = data.pop("inputs")
    steps = data.pop("num_inference_steps", 25)
    images = pipe(prompt, num_inference_steps=steps, guidance_scale=data.pop("guidance_scale", 7.5)).images
    encoded = []
    for image in images:
        buffer = io.BytesIO()
        image.save(buffer, format="JPEG")
        encoded.append(base64.b64encode(buffer.getvalue()).decode())
    return {"generated_images": encoded}
