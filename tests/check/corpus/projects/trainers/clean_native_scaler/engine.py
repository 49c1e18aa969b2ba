import torch


def train_one_epoch(model, loader, optimizer, device, loss_scaler, args):
    model.train()
    optimizer.zero_grad()
    for number, (images, _) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = model(images)
        value = loss.item()
        update = (number + 1) % args.accum_iter == 0
        loss_scaler(
            loss / args.accum_iter, optimizer, model.parameters(), clip_grad=args.clip_grad, update_grad=update
        )
        if update:
            optimizer.zero_grad()
        if number % 100 == 0:
            print(f"{number}/{len(loader)} loss {value:.4f}", flush=True)
