// One projection: its lag over time, and its versions.

import { dagOf, get } from "./api.js";
import { badge, h, moment, number, row, span, svg, table, utc } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 120;
const STATES = { live: "ok", next: "info", ended: "empty" };
const LINES = [["seconds", "Lag (time)", span], ["events", "Lag (events)", (value) => Math.round(value).toLocaleString("en")]];

/** Return the elements of the view of a projection; `button` makes the buttons of orders. */
export async function projection(name, heading, button) {
  const [lags, releases] = await Promise.all([get("lag", { projection: name }), get("releases", { projection: name })]);
  return [
    heading(name, "a projection", h("a", { href: "#projections" }, "All projections")),
    h("h3", {}, "Lag in the last 14 days"),
    ...(lags.items.length ? [...LINES.map((line) => chart(name, lags.items, line)), days(lags.items)]
      : [h("p", { class: "nothing" }, "Nothing was observed; the DAG observe measures the lag.")]),
    h("h3", {}, "Versions"),
    releases.items.length ? versions(name, releases.items, button)
      : h("p", { class: "nothing" }, "The projection is not released blue/green, so it has no versions."),
  ];
}

/** Return a figure over time as a line, with a gap where it was unknown. */
function chart(name, items, [field, title, shown]) {
  const times = items.map((item) => Date.parse(item.at));
  const values = items.map((item) => item[field]);
  const most = Math.max(...values.filter((value) => value !== null), 0);
  const x = (at) => ((at - times[0]) / Math.max(times.at(-1) - times[0], 1)) * WIDTH;
  const y = (value) => HEIGHT - (value / Math.max(most, 1)) * HEIGHT;
  const parts = [[]];
  values.forEach((value, place) => {
    if (value === null) parts.push([]);
    else parts.at(-1).push(`${x(times[place]).toFixed(1)},${y(value).toFixed(1)}`);
  });
  const last = values.at(-1);
  const text = `${title} of ${name}: at most ${shown(most)}, last ${last === null ? "unknown" : shown(last)}`;
  return h("figure", { class: "chart" },
    h("figcaption", {}, text),
    svg("svg", { viewBox: `-4 -4 ${WIDTH + 8} ${HEIGHT + 8}`, role: "img", "aria-label": text, preserveAspectRatio: "none" },
      svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: "axis" }),
      parts.filter((part) => part.length > 0).map((part) =>
        svg("polyline", { points: (part.length > 1 ? part : [...part, ...part]).join(" "), class: part.length > 1 ? "line" : "line point" }))),
    h("p", { class: "ends quiet" }, h("span", {}, `${utc(items[0].at)} UTC`), h("span", {}, `${utc(items.at(-1).at)} UTC`)));
}

/** Return the largest figures of each day as a table: what the lines show, as text. */
function days(items) {
  const byDay = new Map();
  for (const item of items) {
    const day = item.at.slice(0, 10);
    byDay.set(day, [...(byDay.get(day) ?? []), item]);
  }
  const largest = (all, field, shown) => {
    const known = all.map((item) => item[field]).filter((value) => value !== null);
    return known.length ? shown(Math.max(...known)) : "unknown";
  };
  return h("details", {}, h("summary", {}, "The largest lag of each day, as a table"),
    table("The largest lag of each day", ["Day (UTC)", ...LINES.map(([, title]) => title)],
      [...byDay].reverse().map(([day, all]) => row(day, day, ...LINES.map(([field, , shown]) => number(largest(all, field, shown)))))));
}

function versions(name, items, button) {
  const manage = (operation, conf) => ({ dag_id: dagOf("manage_projections"), conf: { operation, projections: [name], ...conf } });
  const live = items.find((item) => item.state === "live");
  const buttons = ({ version, state }) => state !== "live" && [
    live && button("Compare", manage("diff", { projections: [`${name}@${live.version}`, `${name}@${version}`] }), `version ${version} with ${live.version}`),
    button("Promote", manage("promote", { version }), `version ${version}`),
    state === "ended" && button("Drop", manage("drop-release", { version }), `version ${version}`),
  ];
  const counts = ({ states, is_complete: isComplete }) =>
    `${Object.entries(states).map(([state, many]) => `${many.toLocaleString("en")} ${state}`).join(", ") || "none"}${isComplete ? "" : " (at least)"}`;
  return table("Versions", ["Version", "State", "Table", "Live since (UTC)", "By", "Time buckets", ""], items.map((item) =>
    row(item.version, String(item.version), badge(item.state, STATES[item.state]), item.table, moment(item.since), item.owner || "–", counts(item),
      h("td", { class: "actions" }, buttons(item)))));
}
