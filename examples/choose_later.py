"""A front of models first, the preference later.

python examples/choose_later.py
"""

import comity

if __name__ == "__main__":
    search = comity.search(
        "deep-sea-treasure",
        generator="gap",
        spread=True,
        candidates=6,
        iterations=1,
        rounds=6,
        control=False,
    )
    for preference in ([0.9, 0.1], [0.5, 0.5], [0.1, 0.9]):
        policy = search.front.best(preference)
        treasure, time = search.front.vectors[search.front.choose(preference)]
        size = sum(parameters.numel() for parameters in policy.parameters())
        print(f"{preference}: treasure {treasure:g} in {-time:g} steps ({size:,} parameters)")
    print(f"pictures: {search.path / 'report.html'}")
