import gymnasium as gym
import torch

from dqn.agent import Agent
from dqn.replay import Replay

device = torch.device("cuda")
env = gym.make("LunarLander-v3")
agent = Agent(env.observation_space.shape[0], env.action_space.n, device)
replay = Replay(100_000)
epsilon, losses = 1.0, []
for episode in range(600):
    observation, _ = env.reset()
    total, done = 0.0, False
    while not done:
        action = agent.act(observation, epsilon)
        following, reward, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
        replay.push(observation, action, reward, following, terminated)
        observation, total = following, total + reward
        if len(replay) >= 2000:
            losses.append(agent.learn(replay.sample(256, device)))
            agent.sync()
    epsilon = max(0.02, epsilon * 0.99)
    if episode % 20 == 0:
        print(f"episode {episode}: {total:.1f} loss {sum(losses) / max(1, len(losses)):.4f}")
torch.save(agent.policy.state_dict(), "lander.pt")
