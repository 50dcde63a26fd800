// Elements from data. Text is only ever inserted as text nodes: persistence ids are hostile input.

const HANDLERS = Symbol("handlers");
const EVENTS = ["click", "change", "input", "keydown", "pointerdown", "pointerover", "submit"];

/** Return an element. Attributes that start with "on" are handlers; null, false and "" are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  element[HANDLERS] = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element[HANDLERS][name.slice(2)] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Return an element of SVG. */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children.flat());
  return element;
}

/** Call the handlers of the elements below a root, for events that reach it. */
export function listen(root) {
  for (const type of EVENTS) {
    root.addEventListener(type, (event) => {
      for (let at = event.target; at && at !== root; at = at.parentElement) {
        at[HANDLERS]?.[type]?.(event);
      }
    });
  }
}

/**
 * Change the children of an element into others, in place. Elements that stay keep the focus, the
 * selected text and what a user has typed. Elements with an attribute "data-key" are matched by it.
 */
export function morph(parent, children) {
  const keyed = new Map();
  const keys = new Set(children.map((child) => child.dataset?.key));
  for (const child of [...parent.children]) {
    const key = child.dataset.key;
    // What is gone is removed first, so that what stays is not moved, which would lose the focus.
    if (key && !keys.has(key)) child.remove();
    else if (key) keyed.set(key, child);
  }
  let at = parent.firstChild;
  for (const wanted of children) {
    const key = wanted.dataset?.key;
    let kept = key ? keyed.get(key) : at;
    if (kept && (kept.nodeName !== wanted.nodeName || (!key && kept.dataset?.key))) kept = null;
    if (!kept) {
      parent.insertBefore(wanted, at);
      continue;
    }
    if (kept === at) at = at.nextSibling;
    else parent.insertBefore(kept, at);
    patch(kept, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function patch(kept, wanted) {
  if (kept.nodeType !== Node.ELEMENT_NODE) {
    if (kept.data !== wanted.data) kept.data = wanted.data;
    return;
  }
  for (const { name } of [...kept.attributes]) {
    // What a user has opened stays open.
    if (!wanted.hasAttribute(name) && name !== "open") kept.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (kept.getAttribute(name) !== value) kept.setAttribute(name, value);
  }
  kept[HANDLERS] = wanted[HANDLERS];
  morph(kept, [...wanted.childNodes]);
}

/** Read a message to users of screen readers. */
export function announce(text) {
  document.getElementById("announcement").textContent = text;
}

const ICONS = { ok: "✓", empty: "○", unknown: "?", late: "◷", stopped: "■", bad: "✕", info: "•" };

/** Return a state as a word with a colour and a sign. */
export function badge(word, kind) {
  return h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, ICONS[kind]), ` ${word}`);
}

/** Return a table that scrolls inside of the page. Columns are names; "" is a column of buttons. */
export function table(caption, columns, rows, kind = null) {
  const head = columns.map((name) =>
    name ? h("th", { scope: "col" }, name) : h("th", { scope: "col" }, h("span", { class: "hidden-text" }, "Actions")),
  );
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", { class: kind }, h("caption", { class: "hidden-text" }, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
  );
}

/** Return a row of a table; the first cell is its header. */
export function row(key, header, ...cells) {
  return h("tr", { "data-key": key }, h("th", { scope: "row" }, header), cells.map((cell) =>
    cell instanceof Element && cell.nodeName === "TD" ? cell : h("td", {}, cell)));
}

export const number = (value) => h("td", { class: "number" }, value);

export function button(label, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, label);
}

/** Return a number that may be a bound or unknown, as text. */
export function amount(value) {
  if (!value || value.number === null) return "unknown";
  return `${value.number.toLocaleString("en")}${value.is_at_least ? "+" : ""}`;
}

/** Return a number of seconds as text, such as "3 h" or "2 days". */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  for (const [unit, size] of [["days", 172800], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / (unit === "days" ? 86400 : size)).toLocaleString("en")} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

export const lag = (value) => (value?.number === null ? "unknown" : `${span(value.number)}${value.is_at_least ? "+" : ""}`);

/** Return a moment in UTC, such as "2024-03-01 02:00". */
export const utc = (iso) => iso.slice(0, 16).replace("T", " ");

/** Return a moment with its age as an element; a dash without one. */
export function moment(iso, { age = true } = {}) {
  if (!iso) return "–";
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  return h("time", { datetime: iso, title: iso }, utc(iso), age && h("span", { class: "quiet" }, ` ${span(Math.max(seconds, 0))} ago`));
}
