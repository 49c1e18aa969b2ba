"""SageMaker SDK v2: asynchronous and serverless endpoints, a streamed response, data capture, and `Transformer`."""

import json
import sys

from sagemaker.async_inference import AsyncInferenceConfig
from sagemaker.async_inference.waiter_config import WaiterConfig
from sagemaker.deserializers import StringDeserializer
from sagemaker.model import Model
from sagemaker.model_monitor import DataCaptureConfig
from sagemaker.predictor import Predictor
from sagemaker.serializers import StringSerializer
from sagemaker.serverless import ServerlessInferenceConfig

role, image, model_data, bucket = sys.argv[1:]
found = {}
made = {"initial_instance_count": 1, "instance_type": "ml.g5.xlarge"}
ways = {"serializer": StringSerializer(), "deserializer": StringDeserializer()}


def new_model():
    return Model(image_uri=image, model_data=model_data, role=role, predictor_cls=Predictor)


config = AsyncInferenceConfig(output_path=f"s3://{bucket}/out", failure_path=f"s3://{bucket}/failures")
predictor = new_model().deploy(async_inference_config=config, **made, **ways)
found["async"] = predictor.predict("hello", waiter_config=WaiterConfig(max_attempts=60, delay=1))
predictor.predictor.delete_endpoint()

serverless = ServerlessInferenceConfig(memory_size_in_mb=2048, max_concurrency=2)
predictor = new_model().deploy(serverless_inference_config=serverless, **ways)
found["serverless"] = predictor.predict("hello")
predictor.delete_endpoint()

capture = DataCaptureConfig(
    enable_capture=True, sampling_percentage=100, destination_s3_uri=f"s3://{bucket}/captured"
)
predictor = new_model().deploy(data_capture_config=capture, **made, **ways)
found["captured"] = predictor.predict("hello")
stream = predictor.sagemaker_session.sagemaker_runtime_client.invoke_endpoint_with_response_stream(
    EndpointName=predictor.endpoint_name, Body=b"streamed", ContentType="text/plain"
)
found["stream"] = b"".join(event["PayloadPart"]["Bytes"] for event in stream["Body"]).decode()
predictor.delete_endpoint()

transformer = new_model().transformer(
    instance_count=1,
    instance_type="ml.g5.xlarge",
    output_path=f"s3://{bucket}/transformed",
    strategy="SingleRecord",
    assemble_with="Line",
)
transformer.transform(f"s3://{bucket}/in", content_type="text/plain", split_type="Line", wait=True, logs=True)
name = transformer.latest_transform_job.name
found["transform"] = transformer.sagemaker_session.describe_transform_job(name)["TransformJobStatus"]
print()  # the SDK ends its row of dashes with no new line
print(json.dumps(found))
