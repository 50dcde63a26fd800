// The grid: time buckets across, applications and projections down. It has a window of time buckets,
// so the number of its elements does not depend on the ledger.

import { dagOf, get } from "./api.js";
import { announce, button, h, utc } from "./dom.js";
import { openOrder } from "./orders.js";

const WIDTH = 48;
const SIZES = { Minute: 60_000, Hour: 3_600_000, Day: 86_400_000 };
const LETTERS = { done: "D", running: "R", planned: "P", held: "H", failed: "F" };
const NOT_BEGUN = "not begun";
const DAGS = { "tag-write": "tag_write", validate: "validate", project: "project", purge: "purge" };

const iso = (millis) => new Date(millis).toISOString().replace(".000Z", "Z");
const stateOf = (column, name) => column.cells[name]?.state ?? NOT_BEGUN;

/** Return the heading texts of a time bucket: of its group, and its own. */
function texts(bucket, size) {
  if (size === "Day") return [bucket.slice(0, 7), bucket.slice(8, 10)];
  if (size === "Hour") return [bucket.slice(0, 10), bucket.slice(11, 13)];
  return [utc(bucket).slice(0, 13), bucket.slice(14, 16)];
}

export async function grid(state, refresh) {
  const answer = await get("grid", { limit: WIDTH, after: state.after, end: state.end });
  state.answer = answer;
  state.refresh = refresh;
  return drawn(state);
}

/** Return the elements of the grid that was read last. */
export function drawn(state) {
  const { answer, refresh } = state;
  const columns = [...answer.items].reverse();
  if (columns.length === 0) {
    return [h("div", { class: "heading" }, h("h2", { id: "view-title" }, "Grid")), h("p", { class: "nothing" }, "No time bucket is in the ledger. Nothing has run yet.")];
  }
  state.columns = columns;
  const size = answer.rows[0].bucket_size;
  state.at ??= { row: answer.rows[0].name, bucket: columns.at(-1).bucket };
  return [
    h("div", { class: "heading" }, h("h2", { id: "view-title" }, "Grid"),
      h("span", { class: "quiet" }, `${utc(columns[0].bucket)} to ${utc(iso(Date.parse(columns.at(-1).bucket) + SIZES[size]))} UTC, ${size} buckets`),
      h("span", { class: "spacer" }), legend()),
    h("div", { class: "buttons paging" },
      button("Older", () => { (state.before ??= []).push(state.after); state.after = answer.next; refresh(); }, { disabled: !answer.next }),
      button("Newer", () => { state.after = state.before.pop(); refresh(); }, { disabled: !state.before?.length }),
      h("label", {}, "Up to ", h("input", { type: "date", onchange: (event) => goTo(state, event.target.value) })),
      answer.rows_left_out > 0 && h("span", { class: "quiet" }, `${answer.rows_left_out} further rows are not shown`)),
    h("div", { class: "scroll", role: "region", "aria-label": "Grid of time buckets", onkeydown: (event) => onKey(state, event) },
      h("table", { class: "grid", role: "grid", "aria-multiselectable": "true", "aria-labelledby": "view-title" },
        h("thead", {}, groupHeads(columns, size), h("tr", { role: "row" }, h("th", { scope: "col" }, h("span", { class: "hidden-text" }, "Application or projection")),
          columns.map((column) => h("th", { scope: "col", "data-key": `head ${column.bucket}` }, texts(column.bucket, size)[1])))),
        h("tbody", {}, answer.rows.map((line) => h("tr", { role: "row", "data-key": line.name },
          h("th", { scope: "row", role: "rowheader" }, line.name),
          columns.map((column) => cell(state, line.name, column))))))),
    h("p", { class: "quiet" }, "Click a cell, or press Enter on it, for its details. Drag, or press Shift with an arrow key, to select a range."),
    actions(state, size),
    details(state),
  ];
}

function goTo(state, day) {
  state.end = day ? iso(Date.parse(`${day}T00:00:00Z`) + SIZES.Day) : null;
  state.after = null;
  state.before = [];
  state.refresh();
}

function legend() {
  const entries = [...Object.entries(LETTERS).map(([name, letter]) => [name, letter]), [NOT_BEGUN, "·"]];
  return h("ul", { class: "legend", "aria-label": "Legend" }, entries.map(([name, letter]) =>
    h("li", {}, h("span", { class: `cell ${name.replace(" ", "-")}`, "aria-hidden": "true" }, letter), ` ${name}`)));
}

function groupHeads(columns, size) {
  const groups = [];
  for (const { bucket } of columns) {
    const [text] = texts(bucket, size);
    if (groups.at(-1)?.text === text) groups.at(-1).width += 1;
    else groups.push({ text, width: 1 });
  }
  return h("tr", { role: "row" }, h("td", {}), groups.map(({ text, width }) => h("th", { scope: "colgroup", colspan: width, class: "group" }, width > 3 ? text : "")));
}

function cell(state, name, column) {
  const kind = stateOf(column, name);
  const isCurrent = state.at.row === name && state.at.bucket === column.bucket;
  const isSelected = selected(state).has(`${name} ${column.bucket}`);
  return h("td", {
    role: "gridcell",
    "data-key": `${name} ${column.bucket}`,
    "data-row": name,
    "data-bucket": column.bucket,
    class: `cell ${kind.replace(" ", "-")}`,
    tabindex: isCurrent ? "0" : "-1",
    "aria-selected": String(isSelected),
    "aria-label": `${name}, ${utc(column.bucket)}, ${kind}`,
    onpointerdown: (event) => { move(state, name, column.bucket, event.shiftKey); state.isDragging = true; },
    onpointerover: (event) => { if (state.isDragging && event.buttons === 1) move(state, name, column.bucket, true); },
    onclick: () => open(state),
  }, LETTERS[kind] ?? "·");
}

/** Return the keys of the selected cells: those between the anchor and the current cell. */
function selected(state) {
  const range = rangeOf(state);
  if (!range) return new Set();
  return new Set(range.names.flatMap((name) => range.columns.map((column) => `${name} ${column.bucket}`)));
}

function rangeOf(state) {
  if (!state.anchor) return null;
  const names = state.answer.rows.map((line) => line.name);
  const places = [names.indexOf(state.anchor.row), names.indexOf(state.at.row)].sort((a, b) => a - b);
  const buckets = [state.anchor.bucket, state.at.bucket].sort();
  const columns = state.columns.filter(({ bucket }) => buckets[0] <= bucket && bucket <= buckets[1]);
  if (places[0] < 0 || columns.length === 0) return null;
  return { names: names.slice(places[0], places[1] + 1), columns };
}

function move(state, row, bucket, isExtending) {
  if (!isExtending) state.anchor = { row, bucket };
  else state.anchor ??= state.at;
  state.at = { row, bucket };
  state.repaint();
}

function open(state) {
  if (rangeOf(state)?.columns.length > 1) return;
  state.detail = state.at;
  state.repaint();
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -WIDTH], End: [0, WIDTH] };

function onKey(state, event) {
  const { row: focused, bucket: focusedBucket } = event.target.dataset;
  if (!focusedBucket) return;
  // Screen readers move the focus without a key of this grid.
  state.at = { row: focused, bucket: focusedBucket };
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    state.anchor = state.at;
    state.detail = state.at;
    state.repaint();
  }
  if (event.key === "Escape") {
    state.anchor = null;
    state.detail = null;
    state.repaint();
  }
  const step = STEPS[event.key];
  if (!step) return;
  event.preventDefault();
  const names = state.answer.rows.map((line) => line.name);
  const within = (place, length) => Math.min(Math.max(place, 0), length - 1);
  const row = names[within(names.indexOf(state.at.row) + step[0], names.length)];
  const { bucket } = state.columns[within(state.columns.findIndex((column) => column.bucket === state.at.bucket) + step[1], state.columns.length)];
  move(state, row, bucket, event.shiftKey);
  document.querySelector('.grid [tabindex="0"]').focus();
  const range = rangeOf(state);
  if (event.shiftKey && range) announce(`${range.columns.length} time buckets of ${range.names.length} rows are selected`);
}

/** Return the bar with the orders for the selected range. */
function actions(state, size) {
  const range = rangeOf(state);
  if (!range) return null;
  const start = range.columns[0].bucket;
  const end = iso(Date.parse(range.columns.at(-1).bucket) + SIZES[size]);
  const counts = new Map();
  for (const name of range.names) {
    for (const column of range.columns) counts.set(stateOf(column, name), (counts.get(stateOf(column, name)) ?? 0) + 1);
  }
  const counted = [...counts].map(([kind, many]) => `${many} ${kind}`).join(", ");
  // A row of a blue/green projection also has the version, such as "project/totals@v2".
  const projections = [...new Set(range.names.filter((name) => name.startsWith("project/")).map((name) => name.slice("project/".length).split("@")[0]))];
  const applications = [...new Set(range.names.map((name) => name.split("/")[0]))].filter((name) => name in DAGS);
  const orders = applications.flatMap((application) => [
    order(`Run ${application}`, DAGS[application], { window_start: start, window_end: end, ...own(application, projections) }, application),
    ...retry(range, application, projections, size),
  ]);
  return h("section", { class: "selection", "aria-label": "Selected range" },
    h("p", {}, h("strong", {}, range.names.join(", ")), ` ${utc(start)} to ${utc(end)} UTC: ${counted}`),
    h("div", { class: "buttons" }, orders,
      order("Backfill", "backfill", { window_start: start, window_end: end, ...(projections.length ? { projections } : {}) }),
      button("Clear selection", () => { state.anchor = null; state.detail = null; state.repaint(); })));
}

const own = (application, projections) => (application === "project" && projections.length ? { projections } : {});

/** Return the order that does again what has failed or is held, from the first such time bucket to the last. */
function retry(range, application, projections, size) {
  const names = range.names.filter((name) => name.split("/")[0] === application);
  const open = range.columns.filter((column) => names.some((name) => ["failed", "held"].includes(stateOf(column, name))));
  if (open.length === 0) return [];
  const conf = { window_start: open[0].bucket, window_end: iso(Date.parse(open.at(-1).bucket) + SIZES[size]), ...own(application, projections) };
  return [order(`Retry ${application}`, DAGS[application], conf)];
}

const FORCED = new Set(["tag-write", "validate", "project"]);
const FORCE = { name: "force", title: "Again, also the time buckets that are done", kind: "flag" };

const order = (title, dag, conf, application = null) =>
  button(`${title} …`, () => openOrder({ title, dag_id: dagOf(dag), conf, fields: FORCED.has(application) || dag === "backfill" ? [FORCE] : [] }));

/** Return what the ledger says of the cell that was opened. */
function details(state) {
  const { detail } = state;
  if (!detail) return null;
  const piece = state.columns.find((column) => column.bucket === detail.bucket)?.cells[detail.row];
  const facts = piece
    ? [["State", piece.state], ["Reason", piece.reason], ["Attempt", piece.attempt], ["Version", piece.version], ["Finished (UTC)", piece.finished_at && utc(piece.finished_at)], ["Error", piece.error],
       ...Object.entries(piece.counts).map(([name, many]) => [name.replaceAll("_", " "), many.toLocaleString("en")])]
    : [["State", NOT_BEGUN]];
  return h("section", { class: "cell-details", "aria-labelledby": "cell-title" },
    h("h3", { id: "cell-title" }, `${detail.row}, ${utc(detail.bucket)} UTC`),
    h("dl", {}, facts.filter(([, value]) => value !== "" && value !== null && value !== undefined).map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])),
    h("p", { class: "links" },
      piece?.url ? [h("a", { href: piece.url }, "Run"), " ", logOf(piece.url)]
        : piece?.run_id ? h("span", { class: "quiet" }, `Run ${piece.run_id}, started outside of Airflow`) : h("span", { class: "quiet" }, "The run is not stored any more."),
      " ", h("a", { href: `#findings?${detail.bucket}` }, "Findings of this time bucket")));
}

/** Return the link to the task of a run; that of `project` has a log for each projection. */
function logOf(url) {
  const [, dag] = url.match(/\/dags\/([^/.]+)[^/]*\/runs\//);
  if (dag === "purge") return null;
  return h("a", { href: `${url}/tasks/${dag}${dag === "project" ? "/mapped" : ""}` }, "Log");
}
