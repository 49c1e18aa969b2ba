import random


class Memory(list):
    def draw(self, count):
        return random.sample(self, count)
