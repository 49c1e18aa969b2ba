MODELS = {}


def register(name):
    def add(cls):
        MODELS[name] = cls
        return cls

    return add


def build(name, **options):
    return MODELS[name](**options)
