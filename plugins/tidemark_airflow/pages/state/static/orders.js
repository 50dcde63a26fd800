// The dialog of an order: what it will touch, whether it is a dry run, and the run that it starts.

import { announce, badge, button, h, listen, morph } from "./dom.js";
import { inAirflow, post } from "./api.js";

const dialog = document.getElementById("dialog");
listen(dialog);
let order = null;

/**
 * Show the dialog of an order.
 *
 * @param {object} wanted title, dag_id, conf, and fields: [{name, title, kind: "text" | "flag", required}]
 */
export function openOrder(wanted) {
  order = { fields: [], ...wanted, conf: { ...wanted.conf }, dryRun: wanted.dry_run ?? null, unpause: false, opener: document.activeElement };
  // The inputs of the order before would keep their values.
  dialog.replaceChildren();
  render();
  dialog.showModal();
  preview();
}

dialog.addEventListener("close", () => {
  order?.abort?.abort();
  order?.opener?.focus?.();
  order = null;
});

const isComplete = () => order.fields.every((field) => !field.required || order.conf[field.name]?.trim());

const body = () => ({ dag_id: order.dag_id, conf: order.conf, dry_run: order.dryRun, unpause: order.unpause });

async function preview() {
  const mine = order;
  mine.abort?.abort();
  mine.abort = new AbortController();
  mine.problem = null;
  mine.preview = null;
  render();
  if (!isComplete()) return;
  try {
    mine.preview = await post("orders/preview", body(), mine.abort.signal);
    mine.dryRun ??= mine.preview.dry_run;
  } catch (error) {
    if (error.name === "AbortError") return;
    mine.problem = error;
  }
  if (mine === order) render();
}

/** Read the preview when the user has stopped to type. */
function previewSoon() {
  window.clearTimeout(order.timer);
  order.preview = null;
  order.timer = window.setTimeout(() => order && preview(), 300);
  render();
}

async function start() {
  const mine = order;
  mine.isStarting = true;
  mine.problem = null;
  render();
  try {
    mine.started = await post("orders", body());
    announce(`${mine.title}: the run has started`);
  } catch (error) {
    mine.problem = error;
  }
  mine.isStarting = false;
  if (mine !== order) return;
  render();
  dialog.querySelector(".result a")?.focus();
}

function render() {
  const { title, dag_id: dag, started, problem } = order;
  morph(dialog, [
    h("form", { method: "dialog", onsubmit: submit },
      h("h2", { id: "dialog-title" }, title),
      h("p", { class: "quiet" }, "A run of the DAG ", h("a", { href: inAirflow(`/dags/${dag}`) }, dag)),
      started ? result() : [fields(), touched()],
      problem && h("p", { class: "problem", role: "alert" }, problem.message),
      buttons()),
  ]);
}

function submit(event) {
  event.preventDefault();
  if (!order.started && order.preview && !order.isStarting) start();
}

const SHOWN = { dry_run: "Dry run", apply: "Apply" };
const titled = (name) => SHOWN[name] ?? name.replaceAll("_", " ");
const shown = (value) => (Array.isArray(value) ? value.join(", ") : value === true ? "yes" : String(value));

function fields() {
  const free = new Set(order.fields.map((field) => field.name));
  const fixed = Object.entries(order.conf).filter(([name, value]) => !free.has(name) && value !== null && value !== false);
  return [
    fixed.length > 0 && h("dl", {}, fixed.map(([name, value]) => [h("dt", {}, titled(name)), h("dd", {}, shown(value))])),
    order.fields.map((field) =>
      h("label", { class: field.kind },
        field.kind === "flag"
          ? [h("input", { type: "checkbox", onchange: (event) => { order.conf[field.name] = event.target.checked; preview(); } }), ` ${field.title}`]
          : [h("span", {}, field.title), h("input", { type: "text", required: field.required, autofocus: true, oninput: (event) => { order.conf[field.name] = event.target.value; previewSoon(); } })])),
    order.dryRun !== null && h("label", { class: "flag" },
      h("input", { type: "checkbox", checked: order.dryRun, disabled: order.hasNoDryRun, onchange: chooseDryRun }),
      order.hasNoDryRun ? " Dry run (this operation has none)" : " Dry run"),
  ];
}

async function chooseDryRun(event) {
  order.dryRun = event.target.checked;
  const mine = order;
  await preview();
  if (mine === order && mine.dryRun && mine.problem?.status === 422) {
    // The only answer of the API that says that an operation has no dry run.
    mine.dryRun = false;
    mine.hasNoDryRun = true;
    event.target.checked = false;
    preview();
  }
}

function touched() {
  const { preview: answer } = order;
  if (!answer) return order.problem || !isComplete() ? null : h("p", { class: "quiet" }, "Reading what the order will touch …");
  const canUnpause = answer.paused && answer.has_schedule;
  return h("section", { "aria-label": "What the order will touch" },
    h("p", { class: answer.dry_run ? "note" : "note acts" }, `This is ${answer.note}.`),
    answer.touches.length > 0 &&
      h("table", {},
        h("caption", {}, "Time buckets that the order covers"),
        h("tbody", {}, answer.touches.map((row) =>
          h("tr", {}, h("th", { scope: "row" }, row.name), h("td", {}, counts(row)))))),
    canUnpause && h("label", { class: "flag" },
      h("input", { type: "checkbox", onchange: (event) => { order.unpause = event.target.checked; preview(); } }),
      " Unpause the DAG: its schedule then runs, too"));
}

function counts(row) {
  const parts = Object.entries(row.states).map(([state, many]) => `${many.toLocaleString("en")} ${state}`);
  if (row.not_begun) parts.push(`${row.not_begun.toLocaleString("en")} not begun`);
  return `${parts.join(", ") || "none"}${row.is_complete ? "" : " (at least)"}`;
}

function result() {
  const { started, dag_id: dag } = order;
  return h("div", { role: "status", class: "result" },
    h("p", {}, badge(started.dry_run ? "dry run started" : "run started", "ok")),
    h("p", {}, h("a", { href: started.url }, started.run_id)),
    started.unpaused && h("p", {}, `The DAG ${dag} was paused, and is not paused any more.`));
}

function buttons() {
  const isBlocked = order.preview?.paused && order.preview.has_schedule && !order.preview.unpauses;
  const label = order.isStarting ? "Starting …" : order.dryRun ? "Start dry run" : "Start run";
  return h("div", { class: "buttons" },
    !order.started && h("button", { type: "submit", class: "primary", disabled: !order.preview || order.isStarting || isBlocked }, label),
    button(order.started ? "Close" : "Cancel", () => dialog.close()));
}
