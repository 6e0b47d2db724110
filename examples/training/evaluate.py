"""Evaluate a trained model on the test share that its training never saw; metrics go to `metrics.json`.

python evaluate.py --data dataset --model model --out metrics
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from train import model, pairs


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate as the command line asks for."""
    parser = argparse.ArgumentParser(description="Evaluate a trained model of characters.")
    parser.add_argument("--data", required=True, type=Path, help="folder of the training set")
    parser.add_argument("--field", default="text", help="of each sample")
    parser.add_argument("--model", required=True, type=Path, help="folder of the model")
    parser.add_argument("--out", required=True, type=Path, help="folder of the metrics")
    asked = parser.parse_args(arguments)
    trained = model()
    trained.load_state_dict(torch.load(asked.model / "model.pt", weights_only=True))
    before, after = pairs(asked.data / "test.jsonl", asked.field)
    loss = torch.nn.functional.cross_entropy(trained(before), after).item()
    metrics = {"loss": loss, "perplexity": math.exp(loss)}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    print(json.dumps(metrics))
    return 0


if __name__ == "__main__":
    sys.exit(main())
