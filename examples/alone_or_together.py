"""The same clients alone and together, over two seeds.

python examples/alone_or_together.py
"""

import comity

if __name__ == "__main__":
    comparison = comity.compare(
        "deep-sea-treasure",
        algorithms=["no-communication", "fedavg", "fedpref"],
        seeds=2,
        clients=6,
        rounds=6,
        workers=2,
    )
    for row in comparison.results["rows"]:
        regret = row["metrics"]["mean_regret"]
        print(f"{row['algorithm']:>16}: mean regret {regret['mean']:.2f} ± {regret['std']:.2f}")
    print(f"pictures: {comparison.path / 'report.html'}")
