import io
import json

import soundfile
import torch
import torchaudio
from net import build

mel = torchaudio.transforms.MelSpectrogram(32000, n_mels=128)


def model_fn(model_dir):
    model = build(num_classes=7)
    model.eval()
    return model


def input_fn(body, content_type):
    samples, rate = soundfile.read(io.BytesIO(body), dtype="float32")
    clip = torch.from_numpy(samples)
    if rate != 32000:
        clip = torchaudio.functional.resample(clip, rate, 32000)
    return mel(clip).log1p()[None, None]


def predict_fn(spectrogram, model):
    with torch.inference_mode():
        return model(spectrogram).softmax(1)[0].tolist()


def output_fn(scores, accept):
    return json.dumps({"scores": scores})
