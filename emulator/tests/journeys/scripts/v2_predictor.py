"""SageMaker SDK v2: `Predictor` of an endpoint that something else deployed, and the end of that endpoint."""

import json
import sys

from sagemaker.deserializers import JSONDeserializer
from sagemaker.predictor import Predictor
from sagemaker.serializers import CSVSerializer, JSONSerializer

(endpoint,) = sys.argv[1:]
predictor = Predictor(endpoint, serializer=JSONSerializer(), deserializer=JSONDeserializer())
found = {"json": predictor.predict([[1, 2], [3, 4]])}
predictor.serializer = CSVSerializer()
found["csv"] = predictor.predict("5,6")
predictor.delete_endpoint(delete_endpoint_config=True)
print(json.dumps(found))
