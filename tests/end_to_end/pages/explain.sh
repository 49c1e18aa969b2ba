cp "$PAGE_FILES/served_train.py" train.py
cp examples/logs/out-of-memory.log train.log
gpuproof run train.py
