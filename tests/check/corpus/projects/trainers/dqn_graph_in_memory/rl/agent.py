import torch
from torch import nn

from rl.memory import Memory


class Network(nn.Sequential):
    def __init__(self, observations, actions):
        super().__init__(nn.Linear(observations, 256), nn.ReLU(), nn.Linear(256, actions))


class Agent:
    def __init__(self, observations, actions, discount=0.99):
        self.device = torch.device("cuda")
        self.net = Network(observations, actions).to(self.device)
        self.target = Network(observations, actions)
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.memory, self.discount = Memory(), discount

    def act(self, observation):
        observation = torch.as_tensor(observation, device=self.device)
        value, action = self.net(observation).max(0)
        return observation, action, value

    def remember(self, observation, action, value, reward):
        self.memory.append((observation, action, value, reward))

    def learn(self, count=64):
        rows = self.memory.draw(count)
        now = torch.stack([row[0] for row in rows[:-1]])
        following = torch.stack([row[0] for row in rows[1:]])
        action = torch.stack([row[1] for row in rows[:-1]])
        reward = torch.tensor([row[3] for row in rows[:-1]], device=self.device)
        goal = reward + self.discount * self.target(following).max(1).values
        loss = nn.functional.mse_loss(self.net(now).gather(1, action.unsqueeze(1)).squeeze(1), goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
