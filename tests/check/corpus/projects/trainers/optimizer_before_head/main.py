from finetune.engine import Engine
from finetune.pictures import loader


def main():
    train, test = loader("/data/mushrooms/train", True), loader("/data/mushrooms/test", False)
    engine = Engine(len(train.dataset.classes))
    for epoch in range(12):
        print(epoch, engine.train(train), engine.test(test), flush=True)


if __name__ == "__main__":
    main()
