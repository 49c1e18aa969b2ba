cat > train.py <<'END'
import torch

print(torch.__version__)
END
