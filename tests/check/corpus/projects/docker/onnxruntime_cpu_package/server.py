import io

import numpy as np
import onnxruntime as ort
from fastapi import FastAPI, UploadFile
from PIL import Image

session = ort.InferenceSession("model.onnx", providers=["CUDAExecutionProvider"])
name = session.get_inputs()[0].name
app = FastAPI()


@app.post("/faces")
async def faces(file: UploadFile):
    image = Image.open(io.BytesIO(await file.read())).convert("RGB").resize((640, 640))
    pixels = np.asarray(image, dtype=np.float32).transpose(2, 0, 1)[None] / 255
    boxes, scores = session.run(None, {name: pixels})
    keep = scores[0] > 0.5
    return {"boxes": boxes[0][keep].tolist(), "scores": scores[0][keep].tolist()}
