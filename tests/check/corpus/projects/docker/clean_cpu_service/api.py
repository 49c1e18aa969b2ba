import io

import torch
from fastapi import FastAPI, UploadFile
from PIL import Image
from torchvision.models import MobileNet_V3_Small_Weights, mobilenet_v3_small

weights = MobileNet_V3_Small_Weights.DEFAULT
model = mobilenet_v3_small(weights=weights).eval()
prepare = weights.transforms()
names = weights.meta["categories"]
app = FastAPI()


@app.post("/label")
async def label(file: UploadFile):
    image = Image.open(io.BytesIO(await file.read())).convert("RGB")
    with torch.inference_mode():
        scores = model(prepare(image).unsqueeze(0)).softmax(1)[0]
    best = int(scores.argmax())
    return {"label": names[best], "score": float(scores[best])}
