"use strict";
// The table of cells: filters, order, pages and download. Text goes in by textContent only.
(function () {
  const data = JSON.parse(document.getElementById("cells-data").textContent);
  const place = (id) => document.getElementById(id);
  const columns = data.columns;
  const number = new Intl.NumberFormat("en");
  const chosen = new Map();
  const state = { words: [], budget: "largest", order: null, down: false, page: 0, size: 50 };
  let shown = [];

  const make = (tag, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const valueAt = (column, row) => {
    if (column.numbers) return column.numbers[row];
    const code = column.codes[row];
    return code < 0 ? null : column.values[code];
  };
  const textAt = (column, row) => {
    const value = valueAt(column, row);
    if (value === null || value === "") return "–";
    if (!column.numbers) return String(value);
    return Number.isInteger(value) && column.whole ? number.format(value) : value.toFixed(3);
  };

  const haystacks = new Array(data.rows);
  const haystack = (row) => {
    if (haystacks[row] === undefined) {
      const words = columns.filter((column) => column.values).map((column) => valueAt(column, row));
      haystacks[row] = words.join(" ").toLowerCase();
    }
    return haystacks[row];
  };

  function passes(row) {
    if (state.budget === "largest" && data.largest[row] !== "1") return false;
    for (const [column, code] of chosen) if (column.codes[row] !== code) return false;
    return state.words.every((word) => haystack(row).includes(word));
  }

  function inOrder(rows) {
    const column = state.order;
    if (!column) return rows;
    const keys = column.numbers || column.codes;
    const way = state.down ? -1 : 1;
    const absent = (key) => key === null || key === -1;
    return rows.sort((a, b) => {
      const x = keys[a];
      const y = keys[b];
      if (absent(x) || absent(y)) return absent(x) - absent(y) || a - b;
      return way * (x - y) || a - b;
    });
  }

  function refresh() {
    const rows = [];
    for (let row = 0; row < data.rows; row += 1) if (passes(row)) rows.push(row);
    shown = inOrder(rows);
    state.page = 0;
    draw();
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(shown.length / state.size));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const first = state.page * state.size;
    const visible = shown.slice(first, first + state.size);
    const body = make("tbody");
    for (const row of visible) {
      const line = make("tr");
      columns.forEach((column, index) => {
        const cell = make(index ? "td" : "th", textAt(column, row));
        if (!index) cell.scope = "row";
        if (column.numeric) cell.className = "number";
        line.append(cell);
      });
      body.append(line);
    }
    place("cells-table").tBodies[0].replaceWith(body);
    const range = visible.length
      ? `Rows ${number.format(first + 1)} to ${number.format(first + visible.length)} of `
      : "No row matches; ";
    const count = visible.length ? number.format(shown.length) : "0";
    place("cells-count").textContent = `${range}${count} shown, ${number.format(data.rows)} in the study.`;
    place("cells-page").textContent = `Page ${number.format(state.page + 1)} of ${number.format(pages)}`;
    place("cells-previous").disabled = state.page === 0;
    place("cells-next").disabled = state.page >= pages - 1;
    place("cells-download").disabled = shown.length === 0;
  }

  function addChoice(label, options, change) {
    const wrapper = make("label");
    const select = make("select");
    select.name = label;
    for (const [value, text] of options) {
      const option = make("option", text);
      option.value = value;
      select.append(option);
    }
    select.addEventListener("change", () => change(select.value));
    wrapper.append(make("span", label), select);
    place("cells-choices").append(wrapper);
  }

  function addFilters() {
    for (const column of columns.filter((each) => each.filter && each.values.length > 1)) {
      const options = column.values.map((value, code) => [String(code), value === "" ? "–" : String(value)]);
      if (column.name === "budget") options.unshift(["largest", "largest of each"]);
      options.splice(column.name === "budget" ? 1 : 0, 0, ["", "all"]);
      addChoice(column.label, options, (value) => {
        if (column.name === "budget") state.budget = value === "largest" ? "largest" : "";
        if (value === "" || value === "largest") chosen.delete(column);
        else chosen.set(column, Number(value));
        refresh();
      });
    }
  }

  function addHeaders() {
    const line = make("tr");
    for (const column of columns) {
      const header = make("th");
      header.scope = "col";
      if (column.numeric) header.className = "number";
      const button = make("button", column.label);
      button.type = "button";
      button.addEventListener("click", () => {
        state.down = state.order === column ? !state.down : false;
        state.order = column;
        for (const other of line.cells) other.removeAttribute("aria-sort");
        header.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        refresh();
      });
      header.append(button);
      line.append(header);
    }
    place("cells-table").tHead.replaceChildren(line);
  }

  // A spreadsheet must not take a name for a formula, hence the apostrophe.
  const field = (value) => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csv = () =>
    [columns.map((column) => field(column.name))]
      .concat(shown.map((row) => columns.map((column) => field(valueAt(column, row)))))
      .map((fields) => `${fields.join(",")}\r\n`)
      .join("");

  function download() {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv;charset=utf-8" }));
    link.download = "cells.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function clear() {
    chosen.clear();
    Object.assign(state, { words: [], budget: "largest" });
    place("cells-form").reset();
    refresh();
  }

  for (const column of columns) {
    column.numeric = Boolean(column.numbers) || column.values.every((value) => typeof value === "number");
    column.whole = Boolean(column.numbers) && column.numbers.every((value) => Number.isInteger(value ?? 0));
  }
  addFilters();
  addHeaders();
  place("cells-form").addEventListener("submit", (event) => event.preventDefault());
  place("cells-search").addEventListener("input", (event) => {
    state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    refresh();
  });
  place("cells-size").addEventListener("change", (event) => {
    state.size = Number(event.target.value);
    state.page = 0;
    draw();
  });
  place("cells-previous").addEventListener("click", () => { state.page -= 1; draw(); });
  place("cells-next").addEventListener("click", () => { state.page += 1; draw(); });
  place("cells-clear").addEventListener("click", clear);
  place("cells-download").addEventListener("click", download);
  refresh();
  place("cells-app").hidden = false;
})();
