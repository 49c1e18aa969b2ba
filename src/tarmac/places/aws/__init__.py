"""Every AWS call that a place makes, typed, in one client.

`Aws` is the client; each service's part of it has a file here. What AWS answers when it does not do what it is asked
becomes an error in words with AWS's own code in it, and `data/remedies.csv` says what to do about each. boto3 is
imported when the first call is made.
"""

from tarmac.places.aws.client import Aws
from tarmac.places.aws.errors import AwsRefused, AwsUnreachable, NoCredentials
from tarmac.places.aws.identity import Caller, Role
from tarmac.places.aws.logs import LogEvent, LogStream
from tarmac.places.aws.s3 import CONNECTIONS, S3Object
from tarmac.places.aws.sagemaker import SageMakerKind

__all__ = [
    "CONNECTIONS",
    "Aws",
    "AwsRefused",
    "AwsUnreachable",
    "Caller",
    "LogEvent",
    "LogStream",
    "NoCredentials",
    "Role",
    "S3Object",
    "SageMakerKind",
]
