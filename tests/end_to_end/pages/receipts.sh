echo "print('trained')" > train.py
gpuproof run train.py
mkdir -p ~/.ssh
ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519
echo "me@example.com $(cat ~/.ssh/id_ed25519.pub)" > allowed_signers
