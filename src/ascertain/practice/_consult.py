"""A dialogue about one case at the terminal: a recommendation, the measured value, the next recommendation.

A `Session` reads lines and prints answers; the caller decides where lines come from. A line is a value,
`column=value` or a command.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rich import markup
from rich.console import Console
from rich.table import Table

from ascertain._core.checks import LARGEST_BUDGET
from ascertain._core.files import replacing
from ascertain._core.frames import value_name
from ascertain._core.text import visible_line
from ascertain.errors import InputError, did_you_mean
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._case_prices import check_case_costs, stated_prices
from ascertain.estimator._consultation import Ahead, Answer, Consultation, Option, Value
from ascertain.estimator._outcomes import outcomes_text
from ascertain.tables._amounts import read_amounts
from ascertain.tables._columns import Column

Ask = Callable[[str], str]  # returns the line that answers a prompt; EOFError at the end of all lines

_RUNNERS_UP = 4
_HELP = (
    ("a value", "the result of what is recommended; a panel asks for each of its columns"),
    ("name=value", "the result of something else; also name: value"),
    ("skip, skip NAME", "it cannot be measured now"),
    ("undo", "take the last step back"),
    ("price NAME AMOUNT", "what something costs in this case; without an amount: as in training"),
    ("budget AMOUNT", "what may be spent on this case"),
    ("list", "everything that can be measured"),
    ("save FILE", "keep the case, to continue with --case FILE"),
    ("stop", "end with the prediction; also quit or exit"),
)
_COMMANDS = ("help", "?", "list", "undo", "skip", "price", "budget", "save")
_STOPS = ("stop", "quit", "exit")
_WHY = {
    "policy": "nothing else is expected to be worth its price",
    "budget": "nothing else fits the budget",
    "nothing left": "everything is measured or skipped",
}


def escape(text: str) -> str:
    """Make a text with names in it one line, and no markup."""
    return markup.escape(visible_line(text))


def read_case(advisor: Advisor, path: Path, budget: float | None) -> Consultation:
    """Read a case that `save` has written; a given budget replaces the saved one."""
    try:
        case = Consultation.from_json(advisor, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not a saved case: {error}") from error
    except InputError as error:
        raise InputError(f"{path} cannot be used with this model: {error}") from error
    return case if budget is None else replace(case, budget=budget)


class Session:
    """A consultation that starts with `case`; the file `saved` contains that case, if there is one."""

    def __init__(self, case: Consultation, ask: Ask, console: Console, saved: Path | None = None):
        self.case = case
        self.saved = saved
        self._ask: Ask = lambda prompt: ask(visible_line(prompt))
        self._console = console
        self._last_saved = case
        self._columns: dict[str, Column] = {each.name: each for each in case.advisor.encoding.columns}

    @property
    def unsaved(self) -> bool:
        """Whether anything was entered since the case was saved."""
        return self.case.case != self._last_saved.case

    def run(self) -> Consultation:
        """Ask and answer until the user stops; an `EOFError` or an interruption is the caller's to catch."""
        self._print("[dim]Type a value, or help.[/]")
        try:
            self._ask_known()
            while True:
                with self._console.status("Thinking"):
                    answer = self.case.answer()
                self._show(answer)
                self._ask_step(answer)
        except _Stop:
            return self.case

    def _ask_known(self) -> None:
        """Ask for what is known from the start, until each column has a value or is left empty."""
        unknown: set[str] = set()
        known = self.case.advisor.encoding.known
        while columns := [each for each in known if each not in {*self.case.values, *unknown}]:
            line = self._ask(self._value_prompt(columns[0])).strip()
            if not line:
                unknown.add(columns[0])
                continue
            try:
                self._execute_or_add(columns[0], line)
            except (InputError, OSError) as error:
                self._print_error(error)

    def _execute_or_add(self, column: str, line: str) -> None:
        """Do what a command says, or enter what was typed for a known column."""
        word, _, rest = line.partition(" ")
        word, rest = word.casefold(), rest.strip()
        if line in (self._columns[column].categories or ()):
            self._add(column, line)
        elif word in _STOPS and not rest:
            raise _Stop
        elif word in _COMMANDS or _assignment(line, list(self._columns)):
            self._execute(word, rest, line, None, None)
        else:
            self._add(column, line)

    def _ask_step(self, answer: Answer) -> None:
        """Ask until something has changed."""
        option = _recommended(answer)
        before = self.case
        while self.case is before:
            line = self._ask(self._prompt(option)).strip()
            word, _, rest = line.partition(" ")
            if word.casefold() in _STOPS and not rest and not self._is_result(word, option):
                raise _Stop
            try:
                self._execute(word.casefold(), rest.strip(), line, answer, option)
            except (InputError, OSError) as error:
                self._print_error(error)

    def _execute(self, word: str, rest: str, line: str, answer: Answer | None, option: Option | None) -> None:
        match word:
            case "" if option is None or len(self._usable(option)) == 1:
                self._print("[dim]Type a value, skip, stop or help.[/]")
            case "help" | "?":
                self._show_help()
            case "list":
                self._show_options(answer or self.case.answer())
            case "undo" if not rest:
                self.case = self.case.undo()
            case "skip" if rest:
                self.case = self.case.skip(_match_name(rest, self.case.advisor.encoding.action_names))
            case "skip" if option is not None:
                self.case = self.case.skip(option.action)
            case "skip":
                raise InputError("nothing is recommended that could be skipped; name an action: skip NAME")
            case "price" if rest:
                self.case = _with_price(self.case, rest)
            case "budget" if rest:
                amount = read_amounts({"the budget": rest})["the budget"]
                self.case = replace(self.case, budget=min(amount, LARGEST_BUDGET))
            case "save":
                self._save(rest)
            case _:
                self._enter(line, option)

    def _enter(self, line: str, option: Option | None) -> None:
        named = _assignment(line, list(self._columns))
        if named is not None:
            self._add(*named)
        elif option is None:
            raise InputError(
                f"{line!r} is neither a command nor name=value; type help for a list of commands"
            )
        elif len(self._usable(option)) > 1:
            self._ask_panel(line, option)
        else:
            try:
                self._add(self._usable(option)[0], line)
            except InputError as error:
                raise InputError(_with_hint(str(error), line, list(self._columns))) from error

    def _ask_panel(self, line: str, option: Option) -> None:
        """Take the first value of a panel as typed, and ask for the others."""
        first, *others = self._usable(option)
        values: dict[str, Value] = {}
        if line:
            value = self._checked(first, line)
            if value is None:
                return
            values[first] = value
        for column in others:
            try:
                value = self._ask_value(column)
            except _Stop:
                self.case = self.case.enter(values)  # nothing that was typed is lost
                raise
            if value is not None:
                values[column] = value
        if not values:
            raise InputError(f"nothing of {option.action!r} was entered; type skip if it cannot be measured")
        self.case = self.case.enter(values)

    def _is_result(self, word: str, option: Option | None) -> bool:
        """Whether a word is a category of what is recommended."""
        columns = () if option is None else option.columns
        return any(word in (self._columns[each].categories or ()) for each in columns)

    def _ask_value(self, column: str) -> Value | None:
        """Ask for one column until the answer can be used; None if it is left empty."""
        categories = self._columns[column].categories or ()
        while line := self._ask(self._value_prompt(column)).strip():
            if line not in categories:
                if line.casefold() in _STOPS:
                    raise _Stop
                if line.casefold() in ("help", "?"):
                    self._show_help()
                    continue
            try:
                value = self._checked(column, line)
            except InputError as error:
                self._print_error(error)
                continue
            if value is not None:
                return value
        return None

    def _add(self, column: str, text: str) -> None:
        """Enter what was typed for a column, unless it is unusual and the user does not confirm it."""
        value = self._checked(column, text)
        if value is not None:
            self.case = self.case.enter({column: value})

    def _checked(self, column: str, text: str) -> Value | None:
        """Read a value; None if it was not met in training and the user does not confirm it."""
        value = self.case.parse(column, text)
        if not self.case.advisor.encoding.outside(column, value):
            return value
        unusual = f"{value_name(value)} is unusual: {column!r} takes {self._columns[column].allowed}."
        self._print(f"[yellow]{escape(unusual)}[/]")
        return value if self._confirmed("Use it anyway?") else None

    def _confirmed(self, question: str) -> bool:
        return self._ask(f"{question} y/N > ").strip().casefold() in ("y", "yes")

    def _save(self, name: str) -> None:
        if not name:
            raise InputError("name a file: save FILE")
        path = Path(name).expanduser()
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file")
        if path.exists() and path != self.saved and not self._confirmed(f"{path} exists. Replace it?"):
            return
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(self.case.to_json(), indent=2) + "\n", encoding="utf-8")
        self.saved, self._last_saved = path, self.case
        self._print(f"Saved in {escape(str(path))}.")

    def _value_prompt(self, column: str) -> str:
        return f"{column}, {self._columns[column].allowed}; empty if not known > "

    def _prompt(self, option: Option | None) -> str:
        if option is None:
            return "> "
        column = self._columns[self._usable(option)[0]]
        panel = "" if option.columns == (option.action,) else f"{option.action}: "
        return f"{panel}{column.name}, {column.allowed} > "

    def _usable(self, option: Option) -> list[str]:
        """The columns of an action that can be entered: not those that were empty in training."""
        measured = [each for each in option.columns if self._columns[each].kind != "empty"]
        return measured or list(option.columns)

    def _show(self, answer: Answer) -> None:
        """Print what is known, what is predicted, and what to measure next."""
        known = ", ".join(f"{column} {value_name(value)}" for column, value in self.case.values.items())
        facts = {"Known": escape(known) or "nothing yet"}
        if self.case.skipped:
            facts["Skipped"] = escape(", ".join(self.case.skipped))
        if answer.outside:
            facts["Unusual"] = f"[yellow]{escape(', '.join(answer.outside))}[/] (not met in training)"
        if forbidden := [option.action for option in answer.options if option.forbidden]:
            facts["Forbidden"] = escape(", ".join(forbidden))
        facts["Prediction"] = prediction_text(answer)
        facts["Budget"] = budget_text(answer)
        self._print("")
        self._print_grid((f"[dim]{label}[/]", text) for label, text in facts.items())
        for note in answer.notes:
            self._print(f"[yellow]{escape(note)}[/]")
        option = _recommended(answer)
        if option is None:
            reason = _WHY[answer.why or "policy"]
            self._print(f"[bold green]Stop here:[/] {reason}. [dim](stop, or name=value)[/]")
            return
        names = ", ".join(option.columns)
        panel = "" if option.columns == (option.action,) else f" [dim]({escape(names)})[/]"
        cost = escape(cost_text(option))
        self._print(
            f"[bold green]Measure next:[/] [bold]{escape(option.action)}[/]{panel}, cost {cost}; "
            f"by itself expected to remove {benefit_text(option, answer)}"
        )
        self._print(escape(result_text(answer)))
        if answer.ahead is not None:
            self._print(ahead_text(answer.ahead))
        others = [each for each in answer.options if each.affordable and each.open and each != option]
        if others:
            shown = ", ".join(f"{each.action} ({cost_text(each)})" for each in others[:_RUNNERS_UP])
            more = f" and {len(others) - _RUNNERS_UP} more" if len(others) > _RUNNERS_UP else ""
            self._print(f"[dim]Otherwise: {escape(shown)}{more}[/]")

    def _show_options(self, answer: Answer) -> None:
        printed = Table("action", "cost", "expected to remove", "", box=None, padding=(0, 2, 0, 0))
        for option in answer.options:
            closed = "forbidden" if option.forbidden else "skipped" if option.skipped else ""
            note = closed or ("" if option.affordable else "over the budget")
            benefit = benefit_text(option, answer)
            printed.add_row(escape(option.action), escape(cost_text(option)), benefit, note)
        self._console.print(printed, highlight=False)

    def _show_help(self) -> None:
        self._print_grid((f"[bold]{escape(command)}[/]", text) for command, text in _HELP)
        self._print("[dim]A value that reads like a command is typed as name=value.[/]")

    def _print_grid(self, rows: Iterable[tuple[str, str]]) -> None:
        grid = Table.grid(padding=(0, 2))
        for row in rows:
            grid.add_row(*row)
        self._console.print(grid, highlight=False)

    def _print_error(self, error: Exception) -> None:
        self._print(f"[red]{escape(str(error))}[/]")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


class _Stop(Exception):  # noqa: N818
    """The user ends the session."""


def prediction_text(answer: Answer) -> str:
    """Write the likeliest classes with their probabilities, and how far these may still move."""
    likeliest = sorted(answer.probabilities.items(), key=lambda item: -item[1])
    texts = []
    for place, (name, probability) in enumerate(likeliest[:3]):
        low, high = answer.ranges[name]
        text = f"{escape(name)} {probability:.0%} [dim]({low:.0%} to {high:.0%} with all measured)[/]"
        texts.append(f"[bold]{text}[/]" if place == 0 else text)
    # Of two classes the second follows from the first.
    text = texts[0] if len(likeliest) == 2 else "\n".join(texts)
    if answer.prediction == likeliest[0][0]:
        return text
    # Where wrong decisions have costs, the best one may be for a class that is not the likeliest.
    return f"{text}\ndecide [bold]{escape(answer.prediction)}[/] [dim](the least expected cost)[/]"


def cost_text(option: Option) -> str:
    """Write what an action costs, with what set-ups cost besides: "12 + 5 set-up (blood draw)"."""
    if not option.setup:
        return f"{option.cost:g}"
    return f"{option.cost - option.setup:g} + {option.setup:g} set-up ({', '.join(option.setups)})"


def budget_text(answer: Answer) -> str:
    """Write what is left of the budget, or by how much it is exceeded."""
    if answer.over:
        return f"[yellow]{answer.over:g} over the budget[/] of {answer.budget:g}; {answer.spent:g} spent"
    return f"{answer.left:g} left of {answer.budget:g}; {answer.spent:g} spent"


def benefit_text(option: Option, answer: Answer) -> str:
    """Write the share of the uncertainty that a result is expected to remove, and the same in bits."""
    return f"{answer.removed(option):.0%} of the uncertainty ({option.benefit:.3f} bits)"


def result_text(answer: Answer) -> str:
    """Write which results of the recommended action would change the prediction, and to what."""
    text = outcomes_text(answer.outcomes, answer.recommended or "", answer.prediction)
    is_result = answer.outcomes[0].column is not None and not text.startswith("no result")
    return f"If {text}." if is_result else f"{text[:1].upper()}{text[1:]}."


def ahead_text(ahead: Ahead) -> str:
    """Write what most likely follows, and how often the prediction is right in the end."""
    then = "stop" if ahead.then is None else f"most likely [bold]{escape(ahead.then)}[/]"
    share = f" [dim]({ahead.then_share:.0%})[/]" if ahead.then_share < 1 else ""
    # Nothing is certain, however it is rounded.
    right = min(round(100 * ahead.right_at_end), 99)
    spent = f"once the budget of {ahead.budget:g} is spent"
    return f"Then {then}{share}. Right in {right} of 100 such cases {spent}."


def _recommended(answer: Answer) -> Option | None:
    return next((each for each in answer.options if each.action == answer.recommended), None)


def _assignment(line: str, columns: list[str]) -> tuple[str, str] | None:
    """Read `column=value` or `column: value`; None where the line does not begin with a column."""
    for column in sorted(columns, key=len, reverse=True):
        rest = line[len(column) :].lstrip()
        if line[: len(column)].casefold() == column.casefold() and rest[:1] in ("=", ":"):
            return column, rest[1:].strip()
    return None


def _with_price(case: Consultation, text: str) -> Consultation:
    """Read `name amount` or `name=amount`; a name alone takes back what was said of its price."""
    names = list(stated_prices(case.advisor.encoding))
    named = _assignment(text, names)
    for name in sorted(names, key=len, reverse=True) if named is None else ():
        if text.casefold() == name.casefold() or text.casefold().startswith(f"{name.casefold()} "):
            named = name, text[len(name) :].strip()
            break
    if named is None:
        raise InputError(f"{text!r} does not begin with what can be bought; type: price NAME AMOUNT")
    name, amount = named
    others = {each: cost for each, cost in case.costs.items() if each != name}
    if not amount:
        return replace(case, costs=others)
    return replace(case, costs=check_case_costs(case.advisor.encoding, others | {name: amount}))


def _match_name(name: str, names: tuple[str, ...]) -> str:
    """Find a name, in capitals or not."""
    alike = [each for each in names if each == name] or [n for n in names if n.casefold() == name.casefold()]
    if not alike:
        raise InputError(f"there is no action {name!r}; {did_you_mean(name, names)}")
    return alike[0]


def _with_hint(message: str, line: str, columns: list[str]) -> str:
    """Suggest a column where a line looks like `name=value`."""
    for mark in ("=", ":"):
        name, found, _ = line.partition(mark)
        if found and name.strip():
            return f"there is no column {name.strip()!r}; {did_you_mean(name.strip(), columns)}"
    return f"{message}; or type help"
