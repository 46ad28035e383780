"use strict";
// Charts as SVG. Text is set by textContent alone, so that no name can become markup.

// As in _core/text.py.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const SYMBOLS = /[\u00a9\u00ae\u203c-\u3299\ud83c-\ud83e\udc00-\udfff]/; // halves of emoji, too
const SCRIPTS = /[\u0600-\u0dff\u1000-\u109f\u1780-\u18af]/;

/** Whether a joiner, or the mark for an emoji's colours, is between characters that need it. */
const isNeeded = (found, before, after) => {
  const joined = (each) => SCRIPTS.test(each) || SYMBOLS.test(each);
  if (found === "\ufe0f") return SYMBOLS.test(before) || after === "\u20e3";
  return (found === "\u200c" || found === "\u200d") && (joined(before) || before === "\ufe0f") && joined(after);
};

/** A text with its control and invisible characters as escapes: they are to be seen and do nothing. */
const visible = (text) =>
  String(text).replace(UNSEEN, (found, at, whole) => {
    if (isNeeded(found, whole.charAt(at - 1), whole.charAt(at + 1))) return found;
    const code = found.codePointAt(0);
    if (code < 256) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 65536 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });

const charts = (function () {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const COLOURS = 6; // of the style sheet; further lines are dashed
  const MAX_LINES = 8;

  const draw = (tag, attributes, text) => {
    const element = document.createElementNS(NAMESPACE, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = visible(text);
    return element;
  };
  const tone = (index) => `tone-${index % COLOURS}${index >= COLOURS ? " dashed" : ""}`;

  /** A bar of `value` out of `largest`, 72 units wide. */
  function bar(value, largest, kind) {
    const svg = draw("svg", { class: `bar ${kind}`, viewBox: "0 0 72 10", "aria-hidden": "true" });
    const width = largest > 0 ? (70 * Math.max(0, value)) / largest : 0;
    svg.append(draw("rect", { class: "track", x: 0, y: 1, width: 72, height: 8, rx: 2 }));
    if (width > 0) svg.append(draw("rect", { x: 0, y: 1, width: Math.max(width, 1.5), height: 8, rx: 2 }));
    return svg;
  }

  /** A short line in the colour of a class, for the table that serves as the legend. */
  function key(index) {
    const svg = draw("svg", { class: "key", viewBox: "0 0 22 10", "aria-hidden": "true" });
    svg.append(draw("line", { class: tone(index), x1: 1, x2: 21, y1: 5, y2: 5 }));
    return svg;
  }

  /** The likeliest classes, with their places in the list of all. */
  const likeliest = (classes, now) =>
    classes
      .map((name, at) => ({ name, at }))
      .sort((one, other) => now[other.name] - now[one.name])
      .slice(0, MAX_LINES);

  /** The probabilities before the first step, and the range that each may still reach. */
  function present(place, classes, [now], ranges) {
    const width = Math.max(260, place.clientWidth || 520);
    const drawn = likeliest(classes, now);
    const row = 44;
    const height = row * drawn.length + 30;
    const box = { left: 12, right: width - 24, bottom: height - 22 };
    const x = (share) => box.left + (box.right - box.left) * share;
    const said = drawn.map(({ name }) => `${name} ${(100 * now[name]).toFixed(0)}%`).join(", ");
    const svg = draw("svg", {
      role: "img",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "aria-label": `Probabilities now: ${said}`,
    });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      svg.append(draw("line", { class: "grid", x1: x(share), x2: x(share), y1: 4, y2: box.bottom }));
      svg.append(draw("text", { x: x(share), y: height - 6, "text-anchor": "middle" }, `${100 * share}%`));
    }
    drawn.forEach(({ name, at }, order) => {
      const y = row * order + 32;
      const [low, high] = ranges[name];
      const group = draw("g", { class: tone(at) });
      group.append(draw("title", {}, name));
      group.append(draw("line", { class: "range", x1: x(low), x2: x(high), y1: y, y2: y }));
      group.append(draw("circle", { cx: x(now[name]), cy: y, r: 5 }));
      const label = name.length > 40 ? `${name.slice(0, 39)}…` : name;
      svg.append(group, draw("text", { x: box.left + 2, y: y - 12 }, label));
    });
    place.replaceChildren(svg);
  }

  /** The probabilities of the likeliest classes, step by step, and the range that each may still reach. */
  function lines(place, classes, course, ranges) {
    const width = Math.max(260, place.clientWidth || 520);
    const height = 210;
    const box = { left: 40, right: width - 24, top: 10, bottom: height - 36 };
    const now = course[course.length - 1];
    const drawn = likeliest(classes, now);
    const room = 12 + 7 * drawn.length; // for the ranges, to the right of the last step
    const last = Math.max(course.length - 1, 1);
    const x = (step) => box.left + ((box.right - room - box.left) * step) / last;
    const y = (share) => box.bottom - (box.bottom - box.top) * share;
    const said = drawn.map(({ name }) => `${name} ${(100 * now[name]).toFixed(0)}%`).join(", ");
    const svg = draw("svg", {
      role: "img",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "aria-label": `Probabilities after ${course.length - 1} steps: ${said}`,
    });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      svg.append(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y(share), y2: y(share) }));
      const label = { x: box.left - 6, y: y(share) + 4, "text-anchor": "end" };
      svg.append(draw("text", label, `${100 * share}%`));
    }
    const every = Math.ceil(course.length / Math.max(2, Math.floor((box.right - box.left) / 34)));
    for (let step = 0; step < course.length; step += every) {
      svg.append(draw("text", { x: x(step), y: box.bottom + 16, "text-anchor": "middle" }, String(step)));
    }
    svg.append(
      draw("text", { x: (box.left + box.right - room) / 2, y: height - 4, "text-anchor": "middle" }, "step"),
    );
    drawn.forEach(({ name, at }, order) => {
      const points = course.map((moment, step) => `${x(step)},${y(moment[name])}`).join(" ");
      const group = draw("g", { class: tone(at) });
      group.append(draw("title", {}, name), draw("polyline", { points }));
      course.forEach((moment, step) => {
        group.append(draw("circle", { cx: x(step), cy: y(moment[name]), r: course.length > 40 ? 1.5 : 3 }));
      });
      const beside = x(course.length - 1) + 12 + 7 * order;
      const [low, high] = ranges[name];
      group.append(draw("line", { class: "range", x1: beside, x2: beside, y1: y(low), y2: y(high) }));
      svg.append(group);
    });
    place.replaceChildren(svg);
  }

  return { bar, key, lines, present };
})();
