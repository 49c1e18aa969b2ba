import io

from fastapi import FastAPI, UploadFile
from PIL import Image
from torchvision.transforms import v2

from app.predict import predict

api = FastAPI()
prepare = v2.Compose([v2.Resize((224, 224)), v2.ToTensor()])


@api.post("/moderate")
async def moderate(files: list[UploadFile]):
    images = [prepare(Image.open(io.BytesIO(await file.read())).convert("RGB")) for file in files]
    return {"scores": predict(images)}
