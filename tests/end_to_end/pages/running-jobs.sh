cp "$PAGE_FILES/torch_train.py" train.py
cat >> train.py <<'END'
import json
import os

hosts = json.loads(os.environ["SM_HOSTS"])
print("part", hosts.index(os.environ["SM_CURRENT_HOST"]), "of", len(hosts))
torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth"))
END
rm -r examples/keras-digits   # one framework
sed -i 's/epochs: .*/epochs: 1/' examples/pytorch-digits/gpuproof.yaml
