import copy
import random

import torch
from torch import nn

GAMMA = 0.99


def network(observations, actions):
    return nn.Sequential(nn.Linear(observations, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, actions))


class Agent:
    def __init__(self, observations, actions, device):
        self.device = device
        self.actions = actions
        self.policy = network(observations, actions).to(device)
        self.target = copy.deepcopy(self.policy)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=2.5e-4, amsgrad=True)

    def act(self, observation, epsilon):
        if random.random() < epsilon:
            return random.randrange(self.actions)
        with torch.no_grad():
            state = torch.as_tensor(observation, device=self.device).unsqueeze(0)
            return int(self.policy(state).argmax(1))

    def learn(self, batch):
        state, action, reward, next_state, done = batch
        value = self.policy(state).gather(1, action.long()[:, None]).squeeze(1)
        with torch.no_grad():
            target = reward + (1 - done) * GAMMA * self.target(next_state).max(1).values
        loss = nn.functional.smooth_l1_loss(value, target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.policy.parameters(), 100)
        self.optimizer.step()
        return loss

    def sync(self, tau=0.005):
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.policy.parameters()):
                t.lerp_(p, tau)
