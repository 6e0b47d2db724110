"""Train a small model of characters on the chunks of a training set; it stands for a real training.

    python train.py --data dataset --field text --out model

It goes on from the first `--base` that holds a model, and prints the loss of every epoch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

CHARACTERS = 256


def model() -> torch.nn.Module:
    """Make a model that foretells a character by the one before it."""
    return torch.nn.Embedding(CHARACTERS, CHARACTERS)


def pairs(path: Path, field: str) -> torch.Tensor:
    """Read the pairs of neighbouring characters (bytes) of a file of samples: two rows."""
    texts = [json.loads(line)[field].encode() for line in path.read_text("utf-8").splitlines()]
    rows = [pair for text in texts for pair in itertools.pairwise(text)]
    return torch.tensor(rows, dtype=torch.long).T


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the command line asks for."""
    parser = argparse.ArgumentParser(description="Train a small model of characters.")
    parser.add_argument("--data", required=True, type=Path, help="folder of the training set")
    parser.add_argument("--field", default="text", help="of each sample")
    parser.add_argument(
        "--base", type=Path, action="append", default=[], help="where a model may be; repeatable"
    )
    parser.add_argument("--out", required=True, type=Path, help="folder of the model")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    asked = parser.parse_args(arguments)
    torch.manual_seed(0)
    trained = model()
    base = next((path for path in asked.base if (path / "model.pt").is_file()), None)
    if base is not None:
        trained.load_state_dict(torch.load(base / "model.pt", weights_only=True))
    print(f"goes on from {base}" if base else "begins anew", flush=True)
    optimizer = torch.optim.Adam(trained.parameters(), lr=asked.learning_rate)
    chunks = sorted(asked.data.glob("train-*.jsonl"))
    for epoch in range(asked.epochs):
        losses = []
        for chunk in chunks:
            before, after = pairs(chunk, asked.field)
            loss = torch.nn.functional.cross_entropy(trained(before), after)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}", flush=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.save(trained.state_dict(), asked.out / "model.pt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
