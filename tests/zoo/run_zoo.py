"""Run the zoo: `python tests/zoo/run_zoo.py [--x64] [--chains 1,3] [--samplers a,b|all] [--models a,b] [--json FILE]`.

Every case runs in a worker process. A worker that dies (SIGABRT, SIGSEGV) or is silent for longer than the limit is
replaced, the case is named, and the others go on. One line a case; the status is 1 if any case did not do as expected.
"""

import argparse
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from worker import Outcome, Worker, load_models

SAMPLERS = ["sgld", "msgld", "sghmc", "sgnht", "ccadl", "mccadl", "eccadl"]
MODELS_A_PROCESS = 20  # a worker is replaced after so many, since JAX keeps what it compiled


def main() -> int:
    args = arguments()
    lock, finished = threading.Lock(), []

    def report(outcome: Outcome) -> None:
        with lock:
            finished.append(outcome)
            if not args.quiet or not outcome.is_good:
                print(outcome.line(), flush=True)

    run_models(args, report)
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(outcome) for outcome in finished], indent=1))
    found = Counter(outcome.verdict for outcome in finished)
    bad = [outcome for outcome in finished if not outcome.is_good]
    print(f"{len(args.models)} models, {len(finished)} cases:", ", ".join(f"{n} {word}" for word, n in found.items()))
    print(f"{len(bad)} not as expected" + "".join(f"\n  {outcome.line()}" for outcome in bad))
    return 1 if bad else 0


def run_models(args: argparse.Namespace, report: Callable[[Outcome], None]) -> None:
    """All cases of a model in one worker, so that chains share what was compiled; `jobs` workers at a time."""
    todo, workers = iter(args.models.items()), [Worker(args.x64, args.limit) for _ in range(args.jobs)]
    lock = threading.Lock()

    def drive(worker: Worker) -> None:
        done = 0
        while True:
            with lock:
                model, samplers = next(todo, (None, []))
            if model is None:
                break
            for sampler in dict.fromkeys(samplers):
                for chains in args.chains:
                    report(worker.run(model, sampler, chains, args.steps))
            done += 1
            if done % MODELS_A_PROCESS == 0:
                worker.stop()
        worker.stop()

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(drive, workers))


def arguments() -> argparse.Namespace:
    zoo = load_models()

    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--x64", action="store_true", help="with jax_enable_x64")
    parser.add_argument("--chains", type=words, default=["1"], help="numbers of chains, such as 1,3")
    parser.add_argument("--samplers", type=words, default=["all"], help=f"of {','.join(SAMPLERS)}, or all")
    parser.add_argument("--models", type=words, default=["all"], help="name, name@sampler, theme or all")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of work after which it is a hang")
    parser.add_argument("--jobs", type=int, default=2, help="workers at a time")
    parser.add_argument("--json", help="a file to write all outcomes to")
    parser.add_argument("--quiet", action="store_true", help="name only the cases that are not as expected")
    parser.add_argument("--list", action="store_true", help="print the models' names by theme, and stop")
    args = parser.parse_args()
    if args.list:
        for theme, makers in zoo.items():
            print(theme, *makers, sep="\n  ")
        sys.exit(0)
    args.chains = [int(number) for number in args.chains]
    everywhere = SAMPLERS if args.samplers == ["all"] else args.samplers
    every = [name for theme, makers in zoo.items() if theme != "misbehaving" for name in makers]
    known = set().union(*zoo.values())
    chosen: dict[str, list[str]] = {}
    for word in args.models:
        word, _, sampler = word.partition("@")
        for name in every if word == "all" else zoo.get(word, [word]):
            if name not in known:
                parser.error(f"unknown model: {name}")
            chosen.setdefault(name, []).extend([sampler] if sampler else everywhere)
    if unknown := set().union(*chosen.values()) - set(SAMPLERS):
        parser.error(f"unknown samplers: {', '.join(sorted(unknown))}")
    args.models = chosen
    return args


if __name__ == "__main__":
    sys.exit(main())
