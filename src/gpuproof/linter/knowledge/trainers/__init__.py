"""Facts about trainers: Lightning, transformers, TRL and PEFT, with the versions that have each parameter."""
