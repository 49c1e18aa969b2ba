import argparse

import deepspeed
import torch
from torch.utils.data import TensorDataset
from transformers import AutoModelForCausalLM


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--local_rank", type=int, default=-1)
    return deepspeed.add_config_arguments(parser).parse_args()


def main():
    args = parse_args()
    ids = torch.load(args.data, map_location="cpu", weights_only=True)
    model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m")
    engine, _, loader, _ = deepspeed.initialize(
        args=args, model=model, model_parameters=model.parameters(), training_data=TensorDataset(ids)
    )
    for epoch in range(args.epochs):
        for step, (batch,) in enumerate(loader):
            batch = batch.to(engine.device)
            loss = engine(input_ids=batch, labels=batch).loss
            loss.backward()
            engine.step()
            if step % 50 == 0 and engine.global_rank == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}")
        engine.save_checkpoint("checkpoints", tag=f"epoch{epoch}")


if __name__ == "__main__":
    main()
