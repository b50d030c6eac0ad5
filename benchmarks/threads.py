"""From which size on a step is better shared among threads than left to one: logistic regression, one chain.

.venv/bin/python benchmarks/threads.py
"""

import isotherm
from contestants import isotherms
from isotherm.run import chains
from problems import logistic
from timing import ratio, turns

SIZES = ((125, 100), (500, 100), (500, 400), (1000, 400), (500, 1000), (2000, 400), (500, 2000), (2000, 2000))
REPEATS = 11


def main() -> None:
    print("| n | d | n·d | sgnht: shared / one thread | mccadl: shared / one thread |\n|---|---|---|---|---|")
    for n, d in SIZES:
        case, steps = logistic(n, d, 10_000), max(20, 20_000_000 // (n * d))
        cells = []
        for sampler in (isotherm.sgnht(1e-5), isotherm.mccadl(1e-5)):
            runs = {}
            for name, chains.ONE_THREAD_UP_TO in (("one", 2**40), ("shared", 0)):
                runs[name] = isotherms(case, sampler, steps)
            taken = turns(runs, REPEATS)
            cells.append(str(ratio(taken["shared"], taken["one"])))
        print(f"| {n} | {d} | {n * d:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
