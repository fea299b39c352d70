"""The DLRM of MLPerf over the rows of Criteo Kaggle in PyTorch, to be measured beside
`ecrec bench train device=cuda model=mlperf` on the same GPU: float32, with TF32 products on demand, SGD, one
embedding table for all rows with sparse gradients, synthetic ids that are drawn before.
"""

import argparse
import time

import torch
from torch import nn

ROWS = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
DIM, DENSE = 128, 13
BOTTOM, TOP = [512, 256, 128], [1024, 1024, 512, 256, 1]


def mlp(width, widths, last):
    layers = []
    for i, out in enumerate(widths):
        layers.append(nn.Linear(width, out))
        if i < len(widths) - 1 or last:
            layers.append(nn.ReLU())
        width = out
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(sum(ROWS), DIM, sparse=True)
        n = len(ROWS) + 1
        self.bottom = mlp(DENSE, BOTTOM, True)
        self.top = mlp(DIM + n * (n - 1) // 2, TOP, False)
        self.register_buffer("base", torch.tensor([sum(ROWS[:t]) for t in range(len(ROWS))]))
        self.register_buffer("pairs", torch.tril_indices(n, n, -1))

    def forward(self, dense, ids):
        x = self.bottom(dense)
        vectors = torch.cat([x.unsqueeze(1), self.table(ids + self.base)], dim=1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, dots], dim=1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tf32", action="store_true", help="round the operands of products to TF32, as blas=cublas-tf32")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    torch.manual_seed(1)
    device = torch.device("cuda")
    with device:  # 17 GB of weights are drawn there
        model = DLRM()
    dense_step = torch.optim.SGD([p for n, p in model.named_parameters() if not n.startswith("table")], lr=0.1)
    sparse_step = torch.optim.SGD(model.table.parameters(), lr=0.1)
    loss_of = nn.BCEWithLogitsLoss()
    batches = []
    for _ in range(8):
        # ids as skewed as a power law makes them: most lookups are of few rows
        u = torch.rand(args.batch, len(ROWS), device=device)
        ids = ((torch.tensor(ROWS, device=device, dtype=torch.float64) + 1) ** u.double() - 1).long()
        batches.append((torch.rand(args.batch, DENSE, device=device), ids, (torch.rand(args.batch, device=device) < 0.25).float()))

    def step(i):
        dense, ids, label = batches[i % len(batches)]
        loss = loss_of(model(dense, ids), label)
        dense_step.zero_grad(set_to_none=True)
        sparse_step.zero_grad(set_to_none=True)
        loss.backward()
        dense_step.step()
        sparse_step.step()
        return loss

    for i in range(args.steps):
        step(i)
    for _ in range(args.repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for i in range(args.steps):
            loss = step(i)
        torch.cuda.synchronize()
        took = time.perf_counter() - began
        print(f"PyTorch {torch.__version__}, {'TF32' if args.tf32 else 'float32'}, {torch.cuda.get_device_name()}, batch {args.batch}: {args.batch * args.steps / took:,.0f} samples/s, loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
