import torch

model = ...
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("device", device)
model.to(device)
model.eval()


def model_fn(model_dir):
    model = ...
    model.to(device)
    model.eval()
    return model


def predict_fn(data, model):
    rows = ...
    rows = rows.to(device)
    with torch.no_grad():
        answer = model(rows)
    return answer.cpu().numpy()
