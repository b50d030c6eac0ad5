"""Run the zoo: `python zoo/run_zoo.py [--x64] [--chains 1,3] [--samplers a,b|all] [--models a,b] [--json FILE]`.

Every case runs in a worker process. A worker that dies (SIGABRT, SIGSEGV) or is silent for longer than the limit is
replaced, the case is named, and the others go on. One line a case; the status is 1 if any case did not do as expected.

All models with all samplers, both precisions and both numbers of chains are 11,000 cases. A quarter of them, in which
every model meets every sampler, both precisions and both numbers of chains:

    python zoo/run_zoo.py --alternate --chains 1,3 --json outcomes.jsonl
"""

import argparse
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from itertools import product

from worker import Outcome, Task, Worker, load_models

SAMPLERS = ["sgld", "msgld", "sghmc", "sgnht", "ccadl", "mccadl", "eccadl"]
CASES_A_PROCESS = 100  # a worker is replaced after so many, since JAX keeps what it compiled


def main() -> int:
    args = arguments()
    lock, finished = threading.Lock(), []

    with open(args.json, "w") if args.json else nullcontext() as file:

        def report(outcome: Outcome) -> None:
            with lock:
                finished.append(outcome)
                if file:
                    print(json.dumps(asdict(outcome)), file=file, flush=True)
                if not args.quiet or not outcome.is_good:
                    print(outcome.line(), flush=True)

        run_tasks(alternating(args) if args.alternate else every_combination(args), args, report)
    found = Counter(outcome.verdict for outcome in finished)
    bad = [outcome for outcome in finished if not outcome.is_good]
    print(f"{len(args.models)} models, {len(finished)} cases:", ", ".join(f"{n} {word}" for word, n in found.items()))
    print(f"{len(bad)} not as expected" + "".join(f"\n  {outcome.line()}" for outcome in bad))
    return 1 if bad else 0


def every_combination(args: argparse.Namespace) -> list[list[Task]]:
    """All tasks of a model in one list: they run in one worker, so that chains share what was compiled."""
    return [
        [Task(model, sampler, args.x64, chains) for sampler, chains in product(dict.fromkeys(samplers), args.chains)]
        for model, samplers in args.models.items()
    ]


def alternating(args: argparse.Namespace) -> list[list[Task]]:
    """Each model once with each sampler; from one to the next, precision and number of chains change in turn.

    Sampler after sampler, and x64 before x32, so that workers are seldom replaced for another precision.
    """
    ways = [(x64, chains) for chains, x64 in product(args.chains, (True, False))]
    tasks = [
        (place, Task(model, sampler, *ways[(number + place) % len(ways)]))
        for number, (model, samplers) in enumerate(args.models.items())
        for place, sampler in enumerate(dict.fromkeys(samplers))
    ]
    return [[task] for _, task in sorted(tasks, key=lambda placed: (placed[0], not placed[1].x64))]


def run_tasks(groups: list[list[Task]], args: argparse.Namespace, report: Callable[[Outcome], None]) -> None:
    """The tasks of a group run in one worker; `jobs` workers at a time."""
    todo, lock = iter(groups), threading.Lock()

    def drive(worker: Worker) -> None:
        done = 0
        while True:
            with lock:
                group = next(todo, None)
            if group is None:
                break
            for task in group:
                report(worker.run(task))
            done += len(group)
            if done >= CASES_A_PROCESS:
                worker.stop()
                done = 0
        worker.stop()

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(drive, [Worker(args.steps, args.limit) for _ in range(args.jobs)]))


def arguments() -> argparse.Namespace:
    zoo = load_models()

    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--x64", action="store_true", help="with jax_enable_x64")
    alternate = "each model once with each sampler, jax_enable_x64 and the number of chains changing in turn"
    precision.add_argument("--alternate", action="store_true", help=alternate)
    parser.add_argument("--chains", type=words, default=["1"], help="numbers of chains, such as 1,3")
    parser.add_argument("--samplers", type=words, default=["all"], help=f"of {','.join(SAMPLERS)}, or all")
    parser.add_argument("--models", type=words, default=["all"], help="name, name@sampler, theme or all")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of work after which it is a hang")
    parser.add_argument("--jobs", type=int, default=2, help="workers at a time")
    parser.add_argument("--json", help="a file to write all outcomes to, a line of JSON each, as they come")
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
