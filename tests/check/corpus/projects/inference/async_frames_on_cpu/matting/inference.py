import os
import tempfile

import torch
from torchvision.io import read_video, write_video

from network import Matting

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir):
    model = Matting()
    model.load_state_dict(torch.load(os.path.join(model_dir, "matting.pt"), map_location="cpu", weights_only=True))
    return model.to(device).eval()


def input_fn(body, content_type):
    with tempfile.NamedTemporaryFile(suffix=".mp4") as f:
        f.write(body)
        f.flush()
        frames, _, info = read_video(f.name, pts_unit="sec", output_format="TCHW")
    return frames, info["video_fps"]


def predict_fn(data, model):
    frames, fps = data
    masks = []
    with torch.inference_mode(), torch.autocast(device.type, torch.float16, enabled=device.type == "cuda"):
        for batch in frames.split(8):
            alpha = model(batch.float() / 255)
            masks.append((alpha * 255).byte().cpu())
    return torch.cat(masks), fps


def output_fn(prediction, accept):
    masks, fps = prediction
    with tempfile.NamedTemporaryFile(suffix=".mp4") as f:
        write_video(f.name, masks.expand(-1, 3, -1, -1).permute(0, 2, 3, 1), fps)
        return f.read()
