"use strict";
// Only this page holds the case: every step sends all of it and shows the answer. Names and values are set by
// textContent alone: they come from a table and may look like markup.
(function () {
  const byId = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = visible(text);
    if (kind) element.className = kind;
    return element;
  };
  const amount = (number) => String(Number(Number(number).toPrecision(6)));
  /** What an option costs, with what the set-ups that are still to be paid cost besides. */
  const costOf = (option) =>
    option.setup > 0 ? `${amount(option.cost - option.setup)} + ${amount(option.setup)} set-up` : amount(option.cost);
  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const whole = (share) => `${(100 * share).toFixed(0)}%`;
  /** A number with three digits, or as a whole number. */
  const short = (number) => String(Number(Math.abs(number) < 1000 ? number.toPrecision(3) : number.toFixed(0)));
  const RANGES = "where it will lie once everything is known, with 90% probability.";
  const WHY = {
    policy: "the policy expects nothing else to be worth its cost.",
    budget: "no measurement that is left fits the budget.",
    "nothing left": "there is nothing left to measure.",
  };

  let model; // what /api/model says
  let columns; // by name
  let answer = null; // the reply to the current case
  let latest = 0; // the number of the last request: replies to earlier ones are dropped

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

  /** Send a case; it becomes the current one if the server accepts it. */
  async function consult(wanted, focus) {
    const number = ++latest;
    document.body.setAttribute("aria-busy", "true");
    try {
      const reply = await ask("/api/advice", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(wanted),
      });
      if (number !== latest) return;
      answer = reply;
      showError(null);
      show();
      focus?.();
    } catch (error) {
      if (number === latest) showError(error.message);
    } finally {
      if (number === latest) document.body.removeAttribute("aria-busy");
    }
  }

  function showError(message) {
    const box = byId("failure");
    box.hidden = message === null;
    box.textContent = visible(message ?? "");
  }

  const entries = () => answer.case.entries;
  function knownValues() {
    const found = new Map();
    for (const entry of entries()) for (const [name, value] of Object.entries(entry.values)) found.set(name, value);
    return found;
  }
  const asText = (value) => (value === true ? "yes" : value === false ? "no" : String(value));

  const setupsOf = (action) => model.setups.filter((each) => each.columns.some((name) => action.columns.includes(name)));

  // Fields

  function hintOf(column, form) {
    const action = model.actions.find((each) => each.name === column.action);
    const option = answer.options.find((each) => each.action === column.action);
    const parts = form === "more" && action.columns.length === 1 && option ? [`cost ${costOf(option)}`] : [];
    if (column.kind === "number") parts.push(`${short(column.low)} to ${short(column.high)} in training`);
    if (column.kind === "date") parts.push("a date such as 2021-03-05");
    if (column.kind === "empty") parts.push("never measured in training");
    return parts.join(" · ");
  }

  /** A labelled field for a column; `form` makes its id unique. */
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
      choices.forEach((choice, at) => input.append(new Option(visible(choice), String(at + 1))));
    } else {
      input.type = column.kind === "date" ? "text" : "number";
      input.step = "any";
      input.inputMode = column.kind === "date" ? "text" : "decimal";
      input.autocomplete = "off";
      input.disabled = column.kind === "empty";
    }
    const note = make("span", hint, "hint");
    note.id = `${id}-hint`;
    input.setAttribute("aria-describedby", note.id);
    input.addEventListener("input", () => checkNumber(column, input, note, hint));
    wrap.append(label, input, note);
    return wrap;
  }

  function fields(listed, form) {
    const box = make("div", undefined, "fields");
    box.append(...listed.map((column) => field(column, form)));
    return box;
  }

  /** Tell at once that a number is not one, or lies outside the training data. */
  function checkNumber(column, input, note, hint) {
    if (column.kind !== "number") return;
    const value = input.valueAsNumber;
    const wrong = input.validity.badInput;
    const outside = !Number.isNaN(value) && (value < column.low || value > column.high);
    note.textContent = wrong ? "not a number" : outside ? `outside the training data: ${hint}` : hint;
    note.classList.toggle("flag", wrong || outside);
    input.setAttribute("aria-invalid", String(wrong));
  }

  /** The values entered in a form, without empty fields; null where one is not a number. */
  function readForm(form) {
    const values = Object.create(null); // a column may be called __proto__
    for (const input of form.querySelectorAll("[data-column]")) {
      const column = columns.get(input.dataset.column);
      if (input.validity.badInput) {
        input.focus();
        showError(`${column.name} takes a number.`);
        return null;
      }
      if (input.value === "") continue;
      const choice = Number(input.value) - 1;
      if (column.kind === "boolean") values[column.name] = choice === 0;
      else if (column.kind === "category") values[column.name] = column.categories[choice];
      else values[column.name] = column.kind === "date" ? input.value : input.valueAsNumber;
    }
    return values;
  }

  function submit(event) {
    event.preventDefault();
    const values = readForm(event.target);
    if (values === null) return;
    const wanted = { ...answer.case, entries: [...entries()] };
    if (event.target.id === "more-form") {
      const amounts = [...event.target.querySelectorAll("#more-budget, [data-price]")];
      const wrong = amounts.find((input) => input.validity.badInput);
      if (wrong) {
        wrong.focus();
        showError("A budget or price takes a number.");
        return;
      }
      const input = byId("more-budget");
      wanted.budget = input.value === "" || input.valueAsNumber === model.budget ? null : input.valueAsNumber;
      readPrices(event.target, wanted);
    }
    if (Object.keys(values).length) wanted.entries.push({ values });
    else if (JSON.stringify(wanted) === JSON.stringify(answer.case)) {
      showError("Fill in a field first.");
      return;
    }
    consult(wanted, focusAdvice);
  }

  /** Take this case's prices and forbidden measurements from the form, where they are not those of training. */
  function readPrices(form, wanted) {
    const costs = Object.create(null); // a column may be called __proto__
    for (const input of form.querySelectorAll("[data-price]")) {
      const usual = priceList().find((each) => each.name === input.dataset.price).cost;
      if (input.value !== "" && input.valueAsNumber !== usual) costs[input.dataset.price] = input.valueAsNumber;
    }
    const forbid = [...form.querySelectorAll("[data-forbid]:checked")].map((input) => input.dataset.forbid);
    delete wanted.costs;
    delete wanted.forbid;
    if (Object.keys(costs).length) wanted.costs = costs;
    if (forbid.length) wanted.forbid = forbid;
  }

  function skip(action) {
    consult({ ...answer.case, entries: [...entries(), { skipped: action }] }, focusAdvice);
  }

  function focusAdvice() {
    const first = byId("next-form").querySelector("input, select") ?? byId("advice");
    first.focus({ preventScroll: true });
    byId("advice").scrollIntoView({ block: "nearest" });
  }

  // The page

  function show() {
    const values = knownValues();
    byId("spent").textContent = amount(answer.spent);
    byId("left").textContent = amount(answer.left);
    byId("budget").textContent = amount(answer.budget);
    byId("over").hidden = answer.over === 0;
    byId("over").textContent = `${amount(answer.over)} over the budget of ${amount(answer.budget)}.`;
    showAdvice();
    byId("notes").replaceChildren(...answer.notes.map((note) => make("p", note, "flag")));
    showPrediction();
    showOptions();
    showPath();
    const asked = model.columns.filter((column) => column.known && !values.has(column.name));
    byId("start-form").replaceChildren(fields(asked, "start"), make("button", "Enter", "main"));
    byId("start").hidden = asked.length === 0;
    showMore(values);
    byId("undo").disabled = entries().length === 0;
    const untouched = Object.values(answer.case).every((each) => each === null || each.length === 0);
    byId("export").disabled = byId("restart").disabled = untouched;
  }

  function showAdvice() {
    const box = byId("recommendation");
    const form = byId("next-form");
    const option = answer.options.find((each) => each.action === answer.recommended);
    form.hidden = !option;
    if (!option) {
      const line = make("p", undefined, "lead");
      line.append(make("strong", "Stop"), `: ${WHY[answer.why]}`);
      box.replaceChildren(line, make("p", `The prediction is ${answer.prediction}.`, "soft"));
      form.replaceChildren();
      return;
    }
    const line = make("p", undefined, "lead");
    line.append("Measure ", make("strong", option.action));
    const parts = [`costs ${costOf(option)} of the ${amount(answer.left)} left`];
    if (option.setups.length) parts.push(`the set-up (${option.setups.join(", ")}) is paid only once`);
    const bits = option.benefit < 0.005 ? "less than 0.01" : option.benefit.toFixed(2);
    parts.push(`by itself expected to remove ${whole(option.removed)} of the uncertainty (${bits} bits)`);
    if (option.columns.length > 1) parts.unshift(`a panel of ${option.columns.join(", ")}`);
    const sentence = `${parts.join("; ")}.`;
    box.replaceChildren(line, make("p", sentence[0].toUpperCase() + sentence.slice(1), "soft"));
    if (answer.outcomes.length) box.append(outcomesTable());
    if (answer.ahead) box.append(aheadLine());
    const submit = make("button", "Enter the result", "main");
    const later = make("button", "Cannot be measured: skip");
    later.type = "button";
    later.addEventListener("click", () => skip(option.action));
    const buttons = make("div", undefined, "buttons");
    buttons.append(submit, later);
    form.replaceChildren(fields(option.columns.map((name) => columns.get(name)), "next"), buttons);
  }

  /** Which results would change the prediction, and to what. */
  function outcomesTable() {
    const differ = new Set(answer.outcomes.map((each) => each.then)).size > 1;
    const [first] = answer.outcomes;
    const column = first.column === answer.recommended ? "Result" : first.column ?? "All results together";
    const head = make("tr");
    for (const title of [column, "How likely", "Prediction then", ...(differ ? ["Next"] : [])]) {
      const cell = make("th", title);
      cell.scope = "col";
      head.append(cell);
    }
    const rows = answer.outcomes.map((each) => {
      const row = make("tr");
      const name = make("th", each.result);
      name.scope = "row";
      // Of two classes the second follows from the first.
      const shown = model.classes.length === 2 ? answer.prediction : each.prediction;
      const then = make("td", `${shown} `);
      then.append(make("strong", whole(each.probabilities[shown])));
      row.append(name, make("td", whole(each.share)), then);
      if (differ) row.append(make("td", each.then ?? "stop"));
      return row;
    });
    const table = make("table", undefined, "outcomes");
    table.createCaption().textContent = "What the result would change";
    table.createTHead().append(head);
    table.createTBody().append(...rows);
    return table;
  }

  /** What most likely follows, and how often the prediction is right in the end. */
  function aheadLine() {
    const { then, then_share: share, right_at_end: right, budget } = answer.ahead;
    const line = make("p", then === null ? "Then stop" : "Then most likely ", "ahead");
    if (then !== null) line.append(make("strong", then));
    if (share < 1) line.append(` (${(100 * share).toFixed(0)}%)`);
    // Nothing is certain, however it is rounded.
    const cases = Math.min(Math.round(100 * right), 99);
    line.append(`. Right in ${cases} of 100 such cases once the budget of ${amount(budget)} is spent.`);
    return line;
  }

  function showPrediction() {
    const outside = byId("outside");
    outside.hidden = answer.outside.length === 0;
    outside.textContent =
      `Outside the training data: ${visible(answer.outside.join(", "))}. The model knows nothing about such cases: ` +
      "check the values, and do not rely on what it says.";
    const line = byId("prediction");
    line.replaceChildren(make("strong", answer.prediction), ` ${percent(answer.probabilities[answer.prediction])}`);
    drawLines();
    const body = byId("classes").tBodies[0];
    body.replaceChildren(
      ...model.classes.map((name, at) => {
        const row = make("tr", undefined, name === answer.prediction ? "best" : "");
        const head = make("th");
        head.scope = "row";
        const named = make("span", undefined, "named");
        named.append(charts.key(at), make("span", name));
        head.append(named);
        const [low, high] = answer.ranges[name];
        row.append(head, make("td", percent(answer.probabilities[name]), "number"));
        row.append(make("td", `${percent(low)} to ${percent(high)}`, "number"));
        return row;
      }),
    );
  }

  function drawLines() {
    const start = answer.course.length === 1;
    const draw = start ? charts.present : charts.lines;
    draw(byId("lines"), model.classes, answer.course, answer.ranges);
    byId("lines-caption").textContent = start
      ? `Each dot is the probability of a class now. The bar shows ${RANGES}`
      : `Probability of each class at the start (0) and after each step. The bars on the right show ${RANGES}`;
  }

  function showOptions() {
    const most = (key) => Math.max(...answer.options.map((option) => option[key]));
    const [benefit, cost] = [most("benefit"), most("cost")];
    const measured = (option, key, largest, digits) => {
      const cell = make("td");
      cell.append(make("span", digits(option), "figure"), charts.bar(option[key], largest, key));
      return cell;
    };
    const rows = answer.options.map((option) => {
      const row = make("tr", undefined, option.action === answer.recommended ? "best" : "");
      const head = make("th", option.action);
      head.scope = "row";
      const closed = option.forbidden ? "not possible" : option.skipped ? "skipped" : "";
      const state = closed || (option.affordable ? "" : "over budget");
      if (state) head.append(" ", make("span", state, "tag"));
      row.classList.toggle("closed", state !== "");
      row.append(head, make("td", option.score === null ? "–" : option.score.toFixed(2), "score"));
      row.append(measured(option, "benefit", benefit, (each) => `${whole(each.removed)} (${each.benefit.toFixed(3)})`));
      row.append(measured(option, "cost", cost, costOf));
      const cell = make("td", undefined, "no-print");
      if (!closed) {
        const button = make("button", "Skip", "small");
        button.type = "button";
        button.setAttribute("aria-label", visible(`Skip ${option.action}`));
        button.addEventListener("click", () => skip(option.action));
        cell.append(button);
      }
      row.append(cell);
      return row;
    });
    const none = make("tr");
    none.append(make("td", "There is nothing left to measure."));
    byId("options").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
  }

  function showPath() {
    const paid = new Set(); // names of actions, and of set-ups: none is called like an action
    const steps = entries().map((entry) => {
      const step = make("li");
      if (entry.skipped !== null) step.append(make("strong", entry.skipped), " skipped");
      let cost = 0;
      Object.entries(entry.values).forEach(([name, value], at) => {
        const action = model.actions.find((each) => each.columns.includes(name));
        for (const each of action ? [action, ...setupsOf(action)] : []) {
          if (!paid.has(each.name)) cost += priceNow(each);
          paid.add(each.name);
        }
        step.append(at ? ", " : "", name, " ", make("strong", asText(value)));
        if (answer.outside.includes(name)) step.append(" ", make("span", "outside the training data", "tag flag"));
      });
      if (entry.skipped === null) step.append(make("span", cost ? ` · cost ${amount(cost)}` : " · free", "soft"));
      return step;
    });
    byId("path").replaceChildren(...steps);
    if (!steps.length) byId("path").append(make("li", "Nothing is known yet.", "none"));
  }

  /** All that is not known yet: single columns first, then a group for each panel. */
  function showMore(values) {
    const group = (title, listed) => {
      const box = make("fieldset");
      box.append(make("legend", title), fields(listed, "more"));
      return box;
    };
    const open = (names) => names.map((name) => columns.get(name)).filter((column) => !values.has(column.name));
    const panels = model.actions.filter((action) => action.columns.length > 1);
    const single = model.actions.filter((action) => action.columns.length === 1).flatMap((action) => action.columns);
    const groups = [
      ["Single measurements", open(single)],
      ...panels.map((panel) => [panelTitle(panel), open(panel.columns)]),
    ];
    const boxes = groups.filter(([, listed]) => listed.length).map(([title, listed]) => group(title, listed));
    byId("more-form").replaceChildren(...boxes, budgetField(), pricesBox(), make("button", "Enter", "main"));
  }

  function panelTitle(panel) {
    const option = answer.options.find((each) => each.action === panel.name);
    return option ? `${panel.name} (panel, cost ${costOf(option)})` : `${panel.name} (panel, paid)`;
  }

  function budgetField() {
    const wrap = make("div", undefined, "field");
    const label = make("label", "Budget for this case");
    const input = make("input");
    label.htmlFor = input.id = "more-budget";
    input.type = "number";
    input.min = 0;
    input.step = "any";
    input.value = String(answer.case.budget ?? model.budget);
    wrap.append(label, input, make("span", `${amount(model.budget)} in training`, "hint"));
    return wrap;
  }

  const priceList = () => [...model.actions, ...model.setups];
  const priceNow = ({ name, cost }) => (Object.hasOwn(answer.case.costs ?? {}, name) ? answer.case.costs[name] : cost);

  /** This case's prices, and what is out of the question in it. */
  function pricesBox() {
    const box = make("details", undefined, "prices");
    const forbid = answer.case.forbid ?? [];
    box.open = Boolean(answer.case.costs) || forbid.length > 0;
    const list = make("table");
    const titles = make("tr");
    titles.append(...["", "Price", "Not possible"].map((title) => make(title ? "th" : "td", title)));
    const rows = priceList().map((each) => {
      const row = make("tr");
      const head = make("th", model.setups.includes(each) ? `${each.name} (set-up)` : each.name);
      const input = make("input");
      head.scope = "row";
      input.setAttribute("aria-label", visible(`Price of ${each.name}`));
      Object.assign(input, { type: "number", min: 0, step: "any", value: String(priceNow(each)) });
      input.dataset.price = each.name;
      const out = make("input");
      Object.assign(out, { type: "checkbox", checked: forbid.includes(each.name) });
      out.dataset.forbid = each.name;
      out.setAttribute("aria-label", visible(`${each.name}: not possible`));
      const [price, possible] = [make("td"), make("td")];
      price.append(input);
      possible.append(out);
      row.append(head, price, possible);
      return row;
    });
    list.append(titles, ...rows);
    box.append(make("summary", "Prices and measurements of this case"), list);
    return box;
  }

  function showModel() {
    document.title = `${visible(model.title)} · Ascertain`;
    byId("title").textContent = visible(model.title);
    byId("purpose").textContent = visible(model.purpose);
    byId("cautions").replaceChildren(...model.cautions.map((text) => make("li", text)));
    byId("provenance").replaceChildren(
      ...Object.entries(model.provenance).flatMap(([label, text]) => [make("dt", label), make("dd", text)]),
    );
    byId("more").open = matchMedia("(min-width: 60rem)").matches;
  }

  // Files

  function exportCase() {
    const file = new Blob([`${JSON.stringify(answer.case, null, 1)}\n`], { type: "application/json" });
    const link = make("a");
    link.href = URL.createObjectURL(file);
    link.download = "case.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  async function importCase(event) {
    const [file] = event.target.files;
    if (!file) return;
    const text = await file.text();
    event.target.value = "";
    try {
      await consult(JSON.parse(text), focusAdvice);
    } catch {
      showError(`${file.name} does not hold a case: it is not JSON.`);
    }
  }

  async function start() {
    try {
      model = await ask("/api/model");
    } catch (error) {
      showError(error.message);
      return;
    }
    columns = new Map(model.columns.map((column) => [column.name, column]));
    showModel();
    for (const name of ["start", "next", "more"]) byId(`${name}-form`).addEventListener("submit", submit);
    byId("undo").addEventListener("click", () => {
      consult({ ...answer.case, entries: entries().slice(0, -1) }, () => entries().length || focusAdvice());
    });
    byId("restart").addEventListener("click", () => consult({}, focusAdvice));
    byId("export").addEventListener("click", exportCase);
    byId("import").addEventListener("change", importCase);
    byId("print").addEventListener("click", () => print());
    addEventListener("resize", () => answer && drawLines());
    await consult({});
  }

  start();
})();
