# Any port instead of 8080: other programs may listen there.
cat > train.py <<'END'
from pathlib import Path

Path("/opt/ml/model/code").mkdir(parents=True, exist_ok=True)
Path("/opt/ml/model/code/inference.py").write_text(
    "import torch\n\ndef model_fn(folder): return sum\n"
    "def predict_fn(data, model): return [model(row) for row in data]\n"
)
END
gpuproof run train.py --name pytorch-digits --framework pytorch
gpuproof pull pytorch-digits -o pulled
cp pulled/model.tar.gz .
mkdir my-model
tar -xzf model.tar.gz -C my-model
cp my-model/code/inference.py .
touch weights.pt
echo '[[0.0, 1.0]]' > p.json
port=$(python -c "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])")
cat > ../bin/gpuproof <<END
#!/bin/bash
words=("\${@//127.0.0.1:8080/127.0.0.1:$port}")
case "\$*" in
    "serve pytorch-digits") words+=(--port $port) ;;
    "serve "*) words+=(--port 0) ;;
esac
exec python -m gpuproof "\${words[@]}"
END
cat > ../bin/curl <<END
#!/bin/bash
exec $(command -v curl) "\${@/:8080/:$port}"
END
chmod +x ../bin/curl
