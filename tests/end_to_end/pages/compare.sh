cat > train.py <<'END'
import gpuproof.runtime as rt

for _ in range(20):
    rt.log_throughput(32)
END
git init -q .
gpuproof run train.py
