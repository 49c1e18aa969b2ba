cp "$PAGE_FILES/torch_train.py" train.py
cat > inference.py <<'END'
import torch


def model_fn(model_dir):
    model = torch.nn.Linear(2, 2)
    return model.to("cuda").eval()
END
mkdir samples
echo 1 > samples/rows.csv
printf 'entry_point: train.py\ninputs:\n  training: s3://data/rows\n' > gpuproof.yaml
echo '[[1.0, 2.0]]' > request.json
printf '1,2\n3,4\n' > rows.csv
python - <<'END'
import torch

torch.save(torch.nn.Linear(2, 2).state_dict(), "weights.pt")
END
mkdir packed
cp -r inference.py packed/
mkdir packed/code && mv packed/inference.py packed/code/
tar -czf model.tar.gz -C packed code
