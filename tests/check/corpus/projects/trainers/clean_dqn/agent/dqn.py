import copy
import random

import torch
from torch import nn

from agent.memory import Memory


class DQN:
    def __init__(self, observations, actions, device):
        self.device, self.actions = device, actions
        self.net = nn.Sequential(
            nn.Linear(observations, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, actions)
        ).to(device)
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=5e-4)
        self.memory = Memory()
        self.steps = 0

    @property
    def epsilon(self):
        return max(0.02, 1 - self.steps / 20_000)

    @torch.no_grad()
    def act(self, observation):
        self.steps += 1
        if random.random() < self.epsilon:
            return random.randrange(self.actions)
        row = torch.as_tensor(observation, device=self.device).unsqueeze(0)
        return self.net(row).argmax(1).item()

    def learn(self, batch_size=128, discount=0.99):
        if len(self.memory) < 1000:
            return
        now, action, reward, following, done = self.memory.draw(batch_size, self.device)
        value = self.net(now).gather(1, action.long().unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.net(following).argmax(1, keepdim=True)
            goal = reward + discount * (1 - done) * self.target(following).gather(1, best).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.optimizer.step()
        if self.steps % 500 == 0:
            self.target.load_state_dict(self.net.state_dict())
