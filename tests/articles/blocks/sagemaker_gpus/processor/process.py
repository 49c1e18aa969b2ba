import os

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("device", device)
source = "/opt/ml/processing/input/input_data"
target = "/opt/ml/processing/output"
matrix = torch.rand(1000, 1000).to(device)
product = torch.matmul(matrix, matrix.T)
os.makedirs(target, exist_ok=True)
# np.save(os.path.join(target, "product.npy"), product.cpu().numpy())
print(f"saved to {target}")
