from fitlib.model import Model

__all__ = ["Model"]
