"""Three clients with different preferences, and the result of each.

python examples/three_wishes.py
"""

import comity

PREFERENCES = {
    "treasure hunter": [0.9, 0.1],
    "careful diver": [0.5, 0.5],
    "in a hurry": [0.1, 0.9],
}

if __name__ == "__main__":
    run = comity.run(
        "deep-sea-treasure",
        algorithm="fedpref",
        clients=len(PREFERENCES),
        preferences=list(PREFERENCES.values()),
        rounds=8,
    )
    for name, row in zip(PREFERENCES, run.results["per_client"], strict=True):
        values = ", ".join(f"{key} {value:g}" for key, value in row["objectives"].items())
        best, reached = row["optimum"], row["scalarised"]
        print(f"{name}: {values} (best possible {best:.2f}, reached {reached:.2f})")
    print(f"pictures: {run.path / 'report.html'}")
