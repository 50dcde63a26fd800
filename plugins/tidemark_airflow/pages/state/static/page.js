// The page: tabs, one view at a time, read again every 15 seconds while somebody sees it.

import { JOURNAL, followLinks, get, pageOf } from "./api.js";
import { badge, h, listen, morph, utc } from "./dom.js";
import { drawn, grid } from "./grid.js";
import * as views from "./views.js";

const EVERY_MS = 15_000;
const VIEWS = {
  overview: ["Overview", views.overview],
  grid: ["Grid", grid],
  projections: ["Projections", views.projections],
  findings: ["Findings", views.findings],
  topics: ["Topics", views.topics],
  groups: ["Groups", views.groups],
  purges: ["Purges", views.purges],
  runs: ["Runs", views.runs],
};

const view = document.getElementById("view");
/** What each view remembers: its page, its filters, its selection. */
const states = Object.fromEntries(Object.keys(VIEWS).map((name) => [name, {}]));
let turn = 0;
let readAt = 0;
let isReading = false;

const current = () => {
  const [name] = window.location.hash.slice(1).split("?");
  return name in VIEWS ? name : "overview";
};

function tabs() {
  morph(document.getElementById("tabs"), Object.entries(VIEWS).map(([name, [title]]) =>
    h("a", { href: `#${name}`, "data-key": name, "aria-current": name === current() ? "page" : null }, title)));
}

/** Read the current view and show it; an answer that comes after another view was chosen is left. */
async function refresh() {
  const name = current();
  const mine = ++turn;
  readAt = Date.now();
  isReading = true;
  try {
    const [shown] = await Promise.all([VIEWS[name][1](states[name], refresh, showOverall), name === "overview" || readOverall()]);
    if (mine !== turn) return;
    paint(shown);
    if (name === "grid" && view.dataset.view !== name) showNewest();
    document.getElementById("read-at").textContent = `read ${utc(new Date().toISOString()).slice(11)} UTC`;
  } catch (problem) {
    if (mine !== turn) return;
    // What was read before stays, and the problem is shown above it.
    const kept = view.dataset.view === name ? [...view.children].filter((child) => !child.classList.contains("problem")) : [];
    view.replaceChildren(h("p", { class: "problem", role: "alert" }, problem.message), ...kept);
  } finally {
    if (mine === turn) isReading = false;
  }
  view.dataset.view = name;
}

/** Show the choice of the journal, if there are several; without an answer there is no choice. */
async function journals() {
  const { items } = await get("journals").catch(() => ({ items: [] }));
  if (items.length < 2) return;
  const place = document.getElementById("journal");
  listen(place);
  morph(place, [h("label", {}, "Journal ", h("select", { onchange: (event) => window.location.assign(pageOf(event.target.value)) },
    items.map((name) => h("option", { value: name, selected: name === JOURNAL }, name))))]);
}

const readOverall = async () => showOverall(await get("overview"));

/** Scroll the grid to its newest time buckets, which are on the right. */
function showNewest() {
  const region = view.querySelector(".scroll");
  if (region) region.scrollLeft = region.scrollWidth;
}

const paint = (shown) => morph(view, shown.flat().filter(Boolean));

function showOverall(answer) {
  morph(document.getElementById("overall"), [badge(answer.state, answer.state)]);
}

states.grid.repaint = () => {
  // Drawn again from what was read, without a request.
  if (current() === "grid") paint(drawn(states.grid));
};

function show() {
  tabs();
  if (view.dataset.view !== current()) view.replaceChildren(h("p", { class: "quiet" }, "Reading …"));
  refresh();
}

window.addEventListener("hashchange", () => {
  document.getElementById("dialog").close();
  show();
  view.focus({ preventScroll: true });
});
const refreshIfDue = () => {
  if (!document.hidden && !isReading && Date.now() - readAt >= EVERY_MS) refresh();
};
document.addEventListener("visibilitychange", refreshIfDue);
window.setInterval(refreshIfDue, 1000);
document.addEventListener("pointerup", () => { states.grid.isDragging = false; });
listen(view);
followLinks();
journals();
show();
