"""A stand-in for AWS's Terraform provider with one resource, `aws_sagemaker_training_job`, which sends CreateTrainingJob.

The provider itself is not on PyPI. Blocks and arguments are the members of botocore's model, as in the provider:
https://registry.terraform.io/providers/hashicorp/aws/latest/docs/resources/sagemaker_training_job
"""

import boto3
from botocore import xform_name
from tf import runner, types
from tf.blocks import SetNestedBlock
from tf.iface import Provider, Resource
from tf.schema import Attribute, Block, Schema

_CLIENT = boto3.client("sagemaker")
_REQUEST = _CLIENT.meta.service_model.operation_model("CreateTrainingJob").input_shape
_SCALARS = {
    "string": types.String(),
    "boolean": types.Bool(),
    "integer": types.Number(),
    "long": types.Number(),
}


def value_type(shape):
    """The type of an argument; None for a block."""
    if shape.type_name == "list" and shape.member.type_name == "string":
        return types.List(types.String())
    if shape.type_name == "map":
        return types.Map(types.String())
    return _SCALARS.get(shape.type_name)


def members(shape):
    """The attributes and blocks of a structure."""
    attributes, blocks = [], []
    for name, member in shape.members.items():
        inner = member.member if member.type_name == "list" else member
        if kind := value_type(member):
            attributes.append(Attribute(xform_name(name), kind, optional=True))
        elif inner.type_name == "structure":
            blocks.append(SetNestedBlock(xform_name(name), Block(*members(inner))))
    return attributes, blocks


def request(shape, state):
    """The members of a structure that are set."""
    found = {}
    for name, member in shape.members.items():
        value = state.get(xform_name(name))
        if not value:
            continue
        if value_type(member):
            found[name] = value
        elif member.type_name == "list":
            found[name] = [request(member.member, item) for item in value]
        else:
            found[name] = request(member, value[0])
    return found


class TrainingJob(Resource):
    def __init__(self, provider):
        pass

    @classmethod
    def get_name(cls):
        return "sagemaker_training_job"

    @classmethod
    def get_schema(cls):
        attributes, blocks = members(_REQUEST)
        return Schema([*attributes, Attribute("arn", types.String(), computed=True)], block_types=blocks)

    def create(self, ctx, planned):
        made = _CLIENT.create_training_job(**request(_REQUEST, planned))
        return {**planned, "arn": made["TrainingJobArn"]}

    def read(self, ctx, current):
        return current

    def update(self, ctx, current, planned):
        return planned

    def delete(self, ctx, current):
        return None


class Aws(Provider):
    def get_model_prefix(self):
        return "aws_"

    def full_name(self):
        return "registry.terraform.io/hashicorp/aws"

    def get_provider_schema(self, diags):
        return Schema([Attribute("region", types.String(), optional=True)])

    def validate_config(self, diags, config):
        pass

    def configure_provider(self, diags, config):
        pass

    def get_data_sources(self):
        return []

    def get_resources(self):
        return [TrainingJob]


runner.run_provider(Aws())
