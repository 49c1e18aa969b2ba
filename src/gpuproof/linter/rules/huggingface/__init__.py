"""transformers, datasets, PEFT, TRL, diffusers and their containers: rules HF."""
