import torch
from meta.learner import Learner
from meta.tasks import Sines

if __name__ == "__main__":
    torch.manual_seed(6)
    device = torch.device("cuda")
    learner, tasks = Learner(device), Sines(device)
    for step in range(20_000):
        loss = learner.step(tasks.draw(25))
        if step % 500 == 0:
            print(step, f"{loss:.4f}", f"{learner.evaluate(tasks.draw(100)):.4f}", flush=True)
    torch.save(learner.net.state_dict(), "maml.pt")
