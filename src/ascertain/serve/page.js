"use strict";
// One case, held by this page alone. Every step sends all of it and shows the answer. Names and values are
// put in by textContent only: they come from a table and may look like markup.
(function () {
  const place = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const amount = (number) => String(Number(Number(number).toPrecision(6)));
  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const WHY = {
    policy: "the policy expects nothing more that is worth its cost.",
    budget: "nothing that is left fits the budget.",
    "nothing left": "there is nothing left to measure.",
  };

  let model; // what /api/model says
  let columns; // by name
  let shown = null; // the latest answer
  let asked = 0; // requests so far: only the latest one's answer counts

  async function ask(path, options) {
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error("The server cannot be reached. Is it still running?");
    }
    const content = await response.json().catch(() => null);
    if (!response.ok || content === null) {
      throw new Error(content?.error ?? `The server answered with status ${response.status}.`);
    }
    return content;
  }

  /** Send a case; once it is accepted, it is the case. */
  async function consult(wanted, focus) {
    const number = ++asked;
    document.body.setAttribute("aria-busy", "true");
    try {
      const answer = await ask("/api/advice", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(wanted),
      });
      if (number !== asked) return;
      shown = answer;
      complain(null);
      show();
      focus?.();
    } catch (error) {
      if (number === asked) complain(error.message);
    } finally {
      if (number === asked) document.body.removeAttribute("aria-busy");
    }
  }

  function complain(message) {
    const box = place("failure");
    box.hidden = message === null;
    box.textContent = message ?? "";
  }

  const entries = () => shown.case.entries;
  const then = (entry) => ({ ...shown.case, entries: [...entries(), entry] });
  function known() {
    const found = new Map();
    for (const entry of entries()) for (const [name, value] of Object.entries(entry.values)) found.set(name, value);
    return found;
  }
  const written = (value) => (value === true ? "yes" : value === false ? "no" : String(value));

  // Fields

  function hintOf(column, form) {
    const action = model.actions.find((each) => each.name === column.action);
    const parts = form === "more" && action.columns.length === 1 ? [`cost ${amount(action.cost)}`] : [];
    if (column.kind === "number") parts.push(`${amount(column.low)} to ${amount(column.high)} in training`);
    if (column.kind === "empty") parts.push("never measured in training");
    return parts.join(" · ");
  }

  /** A labelled field for a column; `form` makes its id its own. */
  function field(column, form) {
    const hint = hintOf(column, form);
    const id = `${form}-${model.columns.indexOf(column)}`;
    const wrap = make("div", undefined, "field");
    const label = make("label", column.name);
    label.htmlFor = id;
    const choices = column.kind === "boolean" ? ["yes", "no"] : column.categories;
    const input = make(choices ? "select" : "input");
    input.id = id;
    input.dataset.column = column.name;
    if (choices) {
      input.append(new Option("not known", ""));
      choices.forEach((choice, at) => input.append(new Option(choice, String(at + 1))));
    } else {
      input.type = "number";
      input.step = "any";
      input.inputMode = "decimal";
      input.autocomplete = "off";
      input.disabled = column.kind === "empty";
    }
    const note = make("span", hint, "hint");
    note.id = `${id}-hint`;
    input.setAttribute("aria-describedby", note.id);
    input.addEventListener("input", () => remark(column, input, note, hint));
    wrap.append(label, input, note);
    return wrap;
  }

  /** Say at once if a number is no number, or one that training did not have. */
  function remark(column, input, note, hint) {
    if (column.kind !== "number") return;
    const value = input.valueAsNumber;
    const wrong = input.validity.badInput;
    const outside = !Number.isNaN(value) && (value < column.low || value > column.high);
    note.textContent = wrong ? "not a number" : outside ? `outside of training: ${hint}` : hint;
    note.classList.toggle("flag", wrong || outside);
    input.setAttribute("aria-invalid", String(wrong));
  }

  /** Give what was typed into a form, or null where something cannot be read; empty fields are not known. */
  function typed(form) {
    const values = Object.create(null); // a column may be called __proto__
    for (const input of form.querySelectorAll("[data-column]")) {
      const column = columns.get(input.dataset.column);
      if (input.validity.badInput) {
        input.focus();
        complain(`${column.name} takes a number.`);
        return null;
      }
      if (input.value === "") continue;
      const choice = Number(input.value) - 1;
      if (column.kind === "boolean") values[column.name] = choice === 0;
      else if (column.kind === "category") values[column.name] = column.categories[choice];
      else values[column.name] = input.valueAsNumber;
    }
    return values;
  }

  function enter(event) {
    event.preventDefault();
    const values = typed(event.target);
    if (values === null) return;
    const budget = place("more-budget");
    if (event.target.id === "more-form" && budget.validity.badInput) {
      budget.focus();
      complain("The budget takes a number.");
      return;
    }
    const own = event.target.id === "more-form" ? ownBudget(budget) : shown.case.budget;
    if (Object.keys(values).length === 0 && own === shown.case.budget) {
      complain("Fill in a field first.");
      return;
    }
    consult({ budget: own, entries: [...entries(), { values }] }, toAdvice);
  }

  const ownBudget = (input) =>
    input.value === "" || input.valueAsNumber === model.budget ? null : input.valueAsNumber;

  function skip(action) {
    consult(then({ skipped: action }), toAdvice);
  }

  function toAdvice() {
    const first = place("next-form").querySelector("input, select") ?? place("advice");
    first.focus({ preventScroll: true });
    place("advice").scrollIntoView({ block: "nearest" });
  }

  // What is shown

  function show() {
    const had = known();
    place("spent").textContent = amount(shown.spent);
    place("left").textContent = amount(shown.left);
    place("budget").textContent = amount(shown.budget);
    showAdvice();
    showPrediction();
    showOptions();
    showPath();
    showForm("start", model.columns.filter((column) => column.known && !had.has(column.name)));
    place("start").hidden = place("start-form").querySelector("[data-column]") === null;
    showMore(had);
    place("undo").disabled = place("export").disabled = place("restart").disabled = entries().length === 0;
  }

  function showAdvice() {
    const box = place("recommendation");
    const form = place("next-form");
    const option = shown.options.find((each) => each.action === shown.recommended);
    form.hidden = !option;
    if (!option) {
      const line = make("p", undefined, "lead");
      line.append(make("strong", "Stop"), `: ${WHY[shown.why]}`);
      box.replaceChildren(line, make("p", `The prediction is ${shown.prediction}.`, "soft"));
      form.replaceChildren();
      return;
    }
    const line = make("p", undefined, "lead");
    line.append("Measure ", make("strong", option.action));
    const parts = [`costs ${amount(option.cost)} of the ${amount(shown.left)} left`];
    const bits = option.benefit < 0.005 ? "less than 0.01" : option.benefit.toFixed(2);
    parts.push(`expected to tell ${bits} bits about the class`);
    if (option.columns.length > 1) parts.unshift(`a panel of ${option.columns.join(", ")}`);
    const sentence = `${parts.join("; ")}.`;
    box.replaceChildren(line, make("p", sentence[0].toUpperCase() + sentence.slice(1), "soft"));
    const fields = make("div", undefined, "fields");
    fields.append(...option.columns.map((name) => field(columns.get(name), "next")));
    const submit = make("button", "Enter the result", "main");
    const later = make("button", "It cannot be measured: skip");
    later.type = "button";
    later.addEventListener("click", () => skip(option.action));
    const buttons = make("div", undefined, "buttons");
    buttons.append(submit, later);
    form.replaceChildren(fields, buttons);
  }

  function showPrediction() {
    const outside = place("outside");
    outside.hidden = shown.outside.length === 0;
    outside.textContent =
      `Outside of what training had: ${shown.outside.join(", ")}. The model knows nothing of such cases; ` +
      "check the values, and do not rely on what it says.";
    const line = place("prediction");
    line.replaceChildren(make("strong", shown.prediction), ` ${percent(shown.probabilities[shown.prediction])}`);
    drawLines();
    const body = place("classes").tBodies[0];
    body.replaceChildren(
      ...model.classes.map((name, at) => {
        const row = make("tr", undefined, name === shown.prediction ? "best" : "");
        const head = make("th");
        head.scope = "row";
        const named = make("span", undefined, "named");
        named.append(charts.key(at), make("span", name));
        head.append(named);
        const [low, high] = shown.ranges[name];
        row.append(head, make("td", percent(shown.probabilities[name]), "number"));
        row.append(make("td", `${percent(low)} to ${percent(high)}`, "number"));
        return row;
      }),
    );
  }

  const drawLines = () => charts.lines(place("lines"), model.classes, shown.course, shown.ranges);

  function showOptions() {
    const most = (key) => Math.max(...shown.options.map((option) => option[key]));
    const [benefit, cost] = [most("benefit"), most("cost")];
    const measured = (option, key, largest, digits) => {
      const cell = make("td");
      cell.append(make("span", digits(option[key]), "figure"), charts.bar(option[key], largest, key));
      return cell;
    };
    const rows = shown.options.map((option) => {
      const row = make("tr", undefined, option.action === shown.recommended ? "best" : "");
      const head = make("th", option.action);
      head.scope = "row";
      const state = option.skipped ? "skipped" : !option.affordable ? "too dear now" : "";
      if (state) head.append(" ", make("span", state, "tag"));
      row.classList.toggle("closed", state !== "");
      row.append(head, make("td", option.score === null ? "–" : option.score.toFixed(2), "score"));
      row.append(measured(option, "benefit", benefit, (bits) => bits.toFixed(3)));
      row.append(measured(option, "cost", cost, amount));
      const cell = make("td", undefined, "no-print");
      if (!option.skipped) {
        const button = make("button", "Skip", "small");
        button.type = "button";
        button.setAttribute("aria-label", `Skip ${option.action}`);
        button.addEventListener("click", () => skip(option.action));
        cell.append(button);
      }
      row.append(cell);
      return row;
    });
    const none = make("tr");
    none.append(make("td", "Nothing is left."));
    place("options").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
  }

  function showPath() {
    const paid = new Set();
    const steps = entries().map((entry) => {
      const step = make("li");
      if (entry.skipped !== null) step.append(make("strong", entry.skipped), " skipped");
      let cost = 0;
      Object.entries(entry.values).forEach(([name, value], at) => {
        const action = model.actions.find((each) => each.columns.includes(name));
        if (action && !paid.has(action.name)) cost += action.cost;
        if (action) paid.add(action.name);
        step.append(at ? ", " : "", name, " ", make("strong", written(value)));
        if (shown.outside.includes(name)) step.append(" ", make("span", "outside training", "tag flag"));
      });
      if (entry.skipped === null) step.append(make("span", cost ? ` · cost ${amount(cost)}` : " · free", "soft"));
      return step;
    });
    place("path").replaceChildren(...steps);
    if (!steps.length) place("path").append(make("li", "Nothing is known yet.", "none"));
  }

  function showForm(name, listed, label = "Enter") {
    const form = place(`${name}-form`);
    const fields = make("div", undefined, "fields");
    fields.append(...listed.map((column) => field(column, name)));
    form.replaceChildren(fields, make("button", label, "main"));
  }

  /** All that is not known yet: columns of their own, then a group for each panel. */
  function showMore(had) {
    const group = (title, listed) => {
      const box = make("fieldset");
      const fields = make("div", undefined, "fields");
      box.append(make("legend", title), fields);
      fields.append(...listed.map((column) => field(column, "more")));
      return box;
    };
    const open = (names) => names.map((name) => columns.get(name)).filter((column) => !had.has(column.name));
    const panels = model.actions.filter((action) => action.columns.length > 1);
    const single = model.actions.filter((action) => action.columns.length === 1).flatMap((action) => action.columns);
    const groups = [
      ["Single measurements", open(single)],
      ...panels.map((panel) => [`${panel.name} (panel, cost ${amount(panel.cost)})`, open(panel.columns)]),
    ];
    const boxes = groups.filter(([, listed]) => listed.length).map(([title, listed]) => group(title, listed));
    place("more-form").replaceChildren(...boxes, budgetField(), make("button", "Enter", "main"));
  }

  function budgetField() {
    const wrap = make("div", undefined, "field");
    const label = make("label", "Budget of this case");
    const input = make("input");
    label.htmlFor = input.id = "more-budget";
    input.type = "number";
    input.min = 0;
    input.step = "any";
    input.value = String(shown.case.budget ?? model.budget);
    wrap.append(label, input, make("span", `${amount(model.budget)} in training`, "hint"));
    return wrap;
  }

  function showModel() {
    document.title = `${model.title} · Ascertain`;
    place("title").textContent = model.title;
    place("purpose").textContent = model.purpose;
    place("cautions").replaceChildren(...model.cautions.map((text) => make("li", text)));
    place("provenance").replaceChildren(
      ...Object.entries(model.provenance).flatMap(([label, text]) => [make("dt", label), make("dd", text)]),
    );
    place("more").open = matchMedia("(min-width: 60rem)").matches;
  }

  // Files

  function save() {
    const file = new Blob([`${JSON.stringify(shown.case, null, 1)}\n`], { type: "application/json" });
    const link = make("a");
    link.href = URL.createObjectURL(file);
    link.download = "case.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  async function open(event) {
    const [file] = event.target.files;
    if (!file) return;
    const text = await file.text();
    event.target.value = "";
    try {
      await consult(JSON.parse(text), toAdvice);
    } catch {
      complain(`${file.name} does not hold a case: it is not JSON.`);
    }
  }

  async function begin() {
    try {
      model = await ask("/api/model");
    } catch (error) {
      complain(error.message);
      return;
    }
    columns = new Map(model.columns.map((column) => [column.name, column]));
    showModel();
    for (const name of ["start", "next", "more"]) place(`${name}-form`).addEventListener("submit", enter);
    place("undo").addEventListener("click", () => {
      consult({ ...shown.case, entries: entries().slice(0, -1) }, () => entries().length || toAdvice());
    });
    place("restart").addEventListener("click", () => consult({}, toAdvice));
    place("export").addEventListener("click", save);
    place("import").addEventListener("change", open);
    place("print").addEventListener("click", () => print());
    addEventListener("resize", () => shown && drawLines());
    await consult({});
  }

  begin();
})();
