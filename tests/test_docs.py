"""The pages keep their word: examples run, commands parse, and every link, path and name leads somewhere."""

import ast
import functools
import importlib
import inspect
import re
import shlex
from pathlib import Path
from textwrap import dedent

import jax
import numpy as np
import pytest
import typer.main

import isotherm
from isotherm.cli.app import app
from isotherm.targets.target import Anchored

ROOT = Path(__file__).parents[1]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*DOCS, ROOT / "CONTRIBUTING.md"]


def title(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Every block of code in this language: the number of its first line, and the code."""
    text = page.read_text()
    found = re.finditer(rf"^( *)```{language}\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(2)].count("\n") + 1, dedent(match[2])) for match in found]


def code_spans(page: Path) -> list[str]:
    """Code inside sentences."""
    prose = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", prose)


def run_page(page: Path) -> dict:
    """Run the Python blocks of a page in order, in one namespace; a user's JAX promotes, so no strictness here."""
    names: dict = {}
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for line, code in blocks(page, "python"):
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)  # a traceback names the page's line
    return names


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_readme(capsys):
    page = ROOT / "README.md"
    first = blocks(page, "python")[0][1]
    assert len([line for line in first.splitlines() if line.strip()]) <= 16
    mean = run_page(page)["tree"].posterior.theta.mean(("chain", "draw")).values
    # Twenty thousand examples know each coefficient to about 1/√(20,000 · 0.2) = 0.016; five of those.
    np.testing.assert_allclose(mean, np.linspace(-1, 1, 10), atol=0.08)
    assert "[" in capsys.readouterr().out


def test_when_things_go_wrong(capsys):
    tree = run_page(ROOT / "docs" / "guide" / "when-things-go-wrong.md")["tree"]
    # Ten thousand examples know a scale of 3 to 3/√(2 · 10,000) = 0.02; five of those.
    np.testing.assert_allclose(np.exp(tree.posterior.theta).mean(), 3, atol=0.1)
    assert capsys.readouterr().out.endswith("30000 of 30000\n")


OTHERS = [
    page
    for page in PAGES
    if blocks(page, "python") and title(page) not in ("README.md", "docs/guide/when-things-go-wrong.md")
]


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS, ids=title)
def test_examples_run(page):
    run_page(page)


@pytest.mark.filterwarnings("ignore:.*do not rely on this run yet")  # an estimator puts its name before it
@pytest.mark.parametrize("page", OTHERS, ids=title)
def test_examples_run_with_few_draws(page, monkeypatch):
    """As they are, but for the runs: the page's call must be one that `fit` or `sample` takes, and SGLD, whose loop is
    compiled soonest, makes the draws. `make test-all` makes those of the page."""
    fit, sample = isotherm.fit, isotherm.sample

    def few_draws(posterior, data, init, **options):
        settings = {"batch_size": None if isinstance(posterior, Anchored) else 100, "steps": 400, "thin": 1}
        kept = {name: options[name] for name in ("store", "probabilities", "devices", "spread") if name in options}
        return sample(posterior, isotherm.sgld(1e-9), data, init, **settings, **kept, progress=False)

    def short_fit(*arguments, **options):
        given = inspect.signature(fit).bind(*arguments, **options).arguments
        tree = few_draws(given.pop("posterior"), given.pop("data", None), given.pop("init", None), **given)
        tree.attrs |= {"fit_method": "", "fit_reason": ""}
        return tree

    def short_sample(*arguments, **options):
        given = inspect.signature(sample).bind(*arguments, **options).arguments
        assert isinstance(given.pop("sampler"), isotherm.samplers.Sampler)
        return few_draws(given.pop("posterior"), given.pop("data", None), given.pop("init", None), **given)

    for place in ("isotherm.fit", "isotherm.estimators.base.fit"):
        monkeypatch.setattr(place, short_fit)
    monkeypatch.setattr(isotherm, "sample", short_sample)
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_commands_parse(page):
    lines = [line for _, code in blocks(page, "sh") for line in code.splitlines()]
    for words in (shlex.split(line, comments=True) for line in lines):
        check_command(words, complete=True)
    for span in code_spans(page):
        if span.startswith(("isotherm ", "make ")):
            check_command(shlex.split(span), complete=False)


def check_command(words: list[str], complete: bool) -> None:
    """That a command line of ours exists, with its options; a `complete` one has all that it needs to run."""
    if words[:1] == ["make"]:
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"make {words[1]}"
    if words[:1] != ["isotherm"]:
        return
    command, rest = typer.main.get_command(app), words[1:]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, shlex.join(words)
        command, rest = command.commands[rest[0]], rest[1:]
    known = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    for word in rest:
        assert not word.startswith("-") or word in known, f"{word} in {shlex.join(words)}"
    if complete:
        command.make_context(words[0], [word for word in rest if word != "--help"])  # raises what a user would see


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_paths_exist(page):
    for path in re.findall(r"\b(?:benchmarks|tests|zoo|docs|examples|src)/[\w./-]*\w", page.read_text()):
        exact = path if "NAME" not in path else str(Path(path).parent)
        assert (ROOT / exact).exists() or (page.parent / path).exists(), path


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=title)
def test_files_exist(page):
    """Every file of code that is named: from the root, beside the page, in the package, or by its name alone."""
    prose = page.read_text() if page.name == "CONTRIBUTING.md" else " ".join(code_spans(page))
    roots = (ROOT, ROOT / "src", ROOT / "src" / "isotherm", page.parent)
    for path in re.findall(r"(?<![\w/.])[\w./-]+\.(?:py|pyi|toml|css|yml)\b", prose):
        known = any((root / path).exists() for root in roots)
        alone = "/" not in path and any(any((ROOT / top).rglob(path)) for top in ("src", "tests", "benchmarks"))
        assert known or alone or "NAME" in path or path == "fit.toml", path


def test_names_are_in_the_files_that_are_said_to_have_them():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for first, second, path in re.findall(r"`(\w+)`(?: and `(\w+)`)? in `([\w/]+\.py)`", text):
        code = (ROOT / "src" / "isotherm" / path).read_text()
        assert all(re.search(rf"\b{name}\b", code) for name in (first, second or first)), (first, second, path)


def test_the_readme_is_short():
    text = re.sub(r"^( *)```.*?^\1```$", "", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    words = re.findall(r"\S*\w\S*", re.sub(r"\]\([^)]*\)", "]", prose))
    assert len(words) <= 450


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_names_exist(page):
    for dotted in re.findall(r"`isotherm((?:\.[A-Za-z_]\w*)+)", page.read_text()):
        found = importlib.import_module("isotherm")
        for name in dotted.split(".")[1:]:
            if not hasattr(found, name):
                importlib.import_module(f"{found.__name__}.{name}")
            found = getattr(found, name)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=title)
def test_links_lead_somewhere(page):
    for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if link.startswith("https://"):
            continue
        target = page.parent / link if link else page
        assert target.exists(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
        slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in slugs, f"{link}#{anchor}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=title)
def test_lists_are_lists_on_the_site_too(page):
    """GitHub takes a list without an empty line before it, and blocks in it that are indented by two or three; the
    site takes neither for what is meant."""
    lines = re.sub(r"^( {4,}|)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE).splitlines()
    for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False)):
        where = f"{page.name}, block {number}: {line[:60]}"
        item, starts = re.compile(r" *(-|\d+\.) "), line.strip() and not before.strip()
        assert not (re.match(r"(-|\d+\.) ", line) and before.strip()) or item.match(before) or before[0] == " ", where
        assert not (starts and re.match(r" {1,3}\S", line)), f"indent by 4: {where}"
        assert not re.match(r" {1,3}(```|\||- |\d+\. )", line), f"indent by 4: {where}"


def quoted_messages(page: Path) -> list[str]:
    """What errors and warnings say in a page: its indented blocks that begin with the name of one."""
    prose = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    quotes = [" ".join(block.split()) for block in re.findall(r"(?:^    .+\n)+", prose, re.MULTILINE)]
    return [quote.partition(": ")[2] for quote in quotes if re.match(r"\w+(Error|Warning): ", quote)]


@functools.cache
def sentences() -> list[re.Pattern]:
    """The strings of the package that have words, as patterns whose groups are what is written in them literally."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        found |= {(node.value,) for node in nodes if isinstance(node, ast.Constant) and id(node) not in parts}
        found |= {
            tuple(getattr(part, "value", None) if isinstance(part, ast.Constant) else None for part in node.values)
            for node in nodes
            if isinstance(node, ast.JoinedStr)
        }
    texts = [parts for parts in found if all(isinstance(part, str | None) for part in parts)]
    worded = [parts for parts in texts if len(" ".join(filter(None, parts)).split()) + (None in parts) > 1]
    return [
        re.compile("".join(rf"({re.escape(part)})" if part else r"\S.{0,200}?" for part in parts)) for parts in worded
    ]


def unsaid(message: str) -> list[str]:
    """The words of a message that no string of the package has, but for values and names of a user's."""
    said = np.zeros(len(message), bool)
    for match in (match for pattern in sentences() for match in pattern.finditer(message)):
        for group in range(1, match.re.groups + 1):
            said[slice(*match.span(group))] = True
    words = [match for match in re.finditer(r"[^\s(),;:]+(?: \d+)?", message) if not said[slice(*match.span())].all()]
    values = re.compile(r".*[\d'/].*|-?(nan|inf)|init|log_prior|isotherm\.\w+|vm|\w+\.(zarr|npy)\b.*|\W+")
    return [word[0] for word in words if not values.fullmatch(word[0])]


QUOTES = [(page, message) for page in DOCS for message in quoted_messages(page)]


@pytest.mark.parametrize(("page", "message"), QUOTES, ids=[f"{title(page)}-{text[:40]}" for page, text in QUOTES])
def test_quoted_messages_are_those_of_the_code(page, message):
    assert unsaid(message) == [], message


def test_a_stale_quote_is_found():
    assert unsaid("data['x'] must be finite, got nan in row 17, column 3") == []
    assert "ought" in unsaid("data['x'] ought to be finite, got nan in row 17, column 3")


def test_the_site_has_every_public_name():
    """docs/api.md names each function and class of `__init__.pyi` by the module it is in."""
    page = (ROOT / "docs" / "api.md").read_text()
    isotherm = importlib.import_module("isotherm")
    for name in isotherm.__all__:
        value = getattr(isotherm, name)
        if callable(value):
            assert f"::: {value.__module__}.{value.__qualname__}\n" in page, name
