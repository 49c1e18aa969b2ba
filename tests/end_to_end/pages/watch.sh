echo "print('trained')" > train.py
