import gymnasium as gym
import torch
from agent.dqn import DQN


def main(episodes=600):
    env = gym.make("LunarLander-v3")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    agent = DQN(env.observation_space.shape[0], int(env.action_space.n), device)
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            action = agent.act(observation)
            following, reward, done, cut, _ = env.step(action)
            agent.memory.add(observation, action, reward, following, float(done))
            agent.learn()
            total += reward
            observation, over = following, done or cut
        returns.append(total)
        if episode % 20 == 0:
            print(episode, sum(returns[-20:]) / len(returns[-20:]))
    torch.save(agent.net.state_dict(), "lander.pt")


if __name__ == "__main__":
    main()
