"""Reinforcement learning on the CPU; the environment takes most of the time."""

import argparse
from collections import namedtuple
from itertools import count

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--render", action="store_true")
args = parser.parse_args()
env = gym.make("CartPole-v1")
Saved = namedtuple("Saved", ["log_prob", "value"])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 128)
        self.actor = nn.Linear(128, 2)
        self.critic = nn.Linear(128, 1)
        self.saved, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.body(x))
        return F.softmax(self.actor(x), dim=-1), self.critic(x)


model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
eps = np.finfo(np.float32).eps.item()


def select_action(state):
    probs, value = model(torch.from_numpy(state).float())
    chosen = Categorical(probs)
    action = chosen.sample()
    model.saved.append(Saved(chosen.log_prob(action), value))
    return action.item()


def finish_episode():
    total, losses = 0, []
    for reward, (log_prob, value) in zip(model.rewards[::-1], model.saved[::-1]):
        total = reward + args.gamma * total
        losses.append(-log_prob * (total - value.item()) + F.smooth_l1_loss(value, torch.tensor([total])))
    optimizer.zero_grad()
    loss = torch.stack(losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:], model.saved[:]


def main():
    for episode in count(1):
        state, _ = env.reset()
        for _ in range(1, 10000):
            state, reward, done, _, _ = env.step(select_action(state))
            if args.render:
                env.render()
            model.rewards.append(reward)
            if done:
                break
        finish_episode()
        if episode > 1000:
            break


if __name__ == "__main__":
    main()
