import json
import os

import boto3
import cv2
import torch
from basicsr.archs.rrdbnet_arch import RRDBNet
from realesrgan import RealESRGANer

queue = boto3.resource("sqs").get_queue_by_name(QueueName=os.environ["QUEUE"])
network = RRDBNet(num_in_ch=3, num_out_ch=3, num_feat=64, num_block=23, num_grow_ch=32, scale=4)
upsampler = RealESRGANer(
    scale=4, model_path="/weights/RealESRGAN_x4plus.pth", model=network, half=True, device=torch.device("cuda")
)

while True:
    for message in queue.receive_messages(WaitTimeSeconds=20):
        job = json.loads(message.body)
        image, _ = upsampler.enhance(cv2.imread(job["source"]), outscale=4)
        cv2.imwrite(job["target"], image)
        message.delete()
