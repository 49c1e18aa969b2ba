import gymnasium as gym
from rl.agent import Agent

if __name__ == "__main__":
    env = gym.make("CartPole-v1")
    agent = Agent(4, 2)
    for episode in range(500):
        observation, _ = env.reset()
        done = False
        while not done:
            tensor, action, value = agent.act(observation)
            observation, reward, ended, cut, _ = env.step(action.item())
            agent.remember(tensor, action, value, reward)
            done = ended or cut
            if len(agent.memory) > 1000:
                agent.learn()
