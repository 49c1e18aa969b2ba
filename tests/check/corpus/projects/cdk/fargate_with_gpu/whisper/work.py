import json
import os

import boto3
from faster_whisper import WhisperModel

model = WhisperModel(os.environ["MODEL"], device="cuda", compute_type="float16")
queue = boto3.resource("sqs").get_queue_by_name(QueueName="subtitles")
s3 = boto3.client("s3")

while True:
    for message in queue.receive_messages(WaitTimeSeconds=20):
        job = json.loads(message.body)
        s3.download_file(job["bucket"], job["key"], "/tmp/audio")
        segments, _ = model.transcribe("/tmp/audio", vad_filter=True)
        text = "\n".join(f"{part.start:.2f} {part.end:.2f} {part.text.strip()}" for part in segments)
        s3.put_object(Bucket=job["bucket"], Key=job["key"] + ".txt", Body=text.encode())
        message.delete()
