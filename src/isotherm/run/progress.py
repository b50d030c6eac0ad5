"""A progress bar for a terminal."""


class Bar:
    """Steps a second, kinetic temperature, time left; silent unless `show` and standard error is a terminal."""

    def __init__(self, total: int, show: bool, done: int = 0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]} steps/s"),
            TextColumn("temperature {task.fields[temperature]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not (show and (console.is_terminal or console.is_jupyter)),
        )
        self.task = self.progress.add_task("compiling", total=total, completed=done, speed="–", temperature="–")

    def __enter__(self) -> "Bar":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def update(self, step: int, burn_in: int, speed: float, temperature: float | None) -> None:
        self.progress.update(
            self.task,
            completed=step,
            description="burn-in" if step < burn_in else "sampling",
            speed=f"{speed:,.0f}",
            temperature="–" if temperature is None else f"{temperature:.3g}",
        )
