"""Three banks that weigh accuracy against fairness differently: alone, and together.

python examples/fair_banks.py
"""

import comity

BANKS = {
    "for accuracy": [0.9, 0.1],
    "for both": [0.7, 0.3],
    "for equal terms": [0.5, 0.5],
}

if __name__ == "__main__":
    runs = {
        algorithm: comity.run(
            "credit-default-gender-dp",
            algorithm=algorithm,
            clients=len(BANKS),
            preferences=list(BANKS.values()),
            rounds=20,
        )
        for algorithm in ("no-communication", "fedpref")
    }
    for algorithm, run in runs.items():
        print(f"{algorithm}:")
        for name, row in zip(BANKS, run.results["per_client"], strict=True):
            values = ", ".join(f"{key} {value:.3f}" for key, value in row["objectives"].items())
            print(f"  bank {name}: {values} (weighted {row['scalarised']:.3f})")
    constant = runs["fedpref"].results["trivial"]
    print(f"the same decision for all: accuracy {constant['accuracy']:.3f}, fairness 1")
    print(f"pictures: {runs['fedpref'].path / 'report.html'}")
