import torch
from pinn.solver import Solver

if __name__ == "__main__":
    torch.manual_seed(2)
    solver = Solver()
    solver.warm_up(10_000)
    solver.refine(5_000)
    points = torch.cartesian_prod(torch.linspace(0, 1, 101), torch.linspace(-1, 1, 201))
    u, _ = solver.field(points)
    print("largest value", abs(u).max())
    torch.save(solver.net.state_dict(), "burgers.pt")
