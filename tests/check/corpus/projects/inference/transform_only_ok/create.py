from sagemaker.pytorch import PyTorchModel


def build(role, data):
    return PyTorchModel(
        model_data=data,
        role=role,
        entry_point="handler.py",
        framework_version="2.3.0",
        py_version="py311",
    )


def deploy(role, data, name):
    return build(role, data).deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge", endpoint_name=name)


def remove(predictor):
    predictor.delete_model()
    predictor.delete_endpoint()
