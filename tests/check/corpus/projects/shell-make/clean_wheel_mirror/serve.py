import io

import torch
from fastapi import FastAPI, UploadFile
from PIL import Image
from torchvision.models import ResNet18_Weights, resnet18

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
weights = ResNet18_Weights.DEFAULT
model = resnet18(weights=weights).to(device).eval()
prepare = weights.transforms()
app = FastAPI()


@app.post("/kind")
async def kind(file: UploadFile):
    image = prepare(Image.open(io.BytesIO(await file.read())).convert("RGB")).unsqueeze(0).to(device)
    with torch.inference_mode():
        return {"kind": weights.meta["categories"][model(image).argmax().item()]}
