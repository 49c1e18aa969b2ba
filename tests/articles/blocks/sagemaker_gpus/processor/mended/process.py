from pathlib import Path

import numpy as np
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
for path in Path("/opt/ml/processing/input").glob("*.npy"):
    rows = torch.from_numpy(np.load(path)).to(device)
    np.save(Path("/opt/ml/processing/output") / path.name, (rows @ rows.T).cpu().numpy())
