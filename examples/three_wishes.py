"""Three clients with wishes of their own, and what each of them gets.

python examples/three_wishes.py
"""

import comity

WISHES = {
    "treasure hunter": [0.9, 0.1],
    "careful diver": [0.5, 0.5],
    "in a hurry": [0.1, 0.9],
}

if __name__ == "__main__":
    run = comity.run(
        "deep-sea-treasure",
        algorithm="fedpref",
        clients=len(WISHES),
        preferences=list(WISHES.values()),
        rounds=8,
    )
    for name, row in zip(WISHES, run.results["per_client"], strict=True):
        got = ", ".join(f"{objective} {value:g}" for objective, value in row["objectives"].items())
        print(f"{name}: {got} (best possible {row['optimum']:.2f}, got {row['scalarised']:.2f})")
    print(f"pictures: {run.path / 'report.html'}")
