// The views that are lists: each reads a page of the API, and returns its elements.

import { airflow, dagOf, get, inAirflow } from "./api.js";
import { amount, badge, button, h, lag, moment, number, row, span, table, utc } from "./dom.js";
import { openOrder } from "./orders.js";
import { projection } from "./projection.js";

const LIMIT = 50;
const STATES = { done: "ok", running: "info", planned: "info", failed: "bad", died: "bad", held: "late", "nothing-to-do": "ok", applied: "ok", started: "info" };
const stateBadge = (state) => badge(state, STATES[state] ?? "unknown");

/** Return the button of an order; `of` names what it is about, for its dialog and for screen readers. */
const order = (label, wanted, of = "") => {
  const title = of ? `${label} ${of}` : label;
  return button(`${label} …`, () => openOrder({ title, ...wanted }), { "aria-label": `${title} …` });
};

/** Return the heading of a view with a note and buttons. */
const heading = (title, note, ...buttons) => h("div", { class: "heading" }, h("h2", { id: "view-title" }, title), note && h("span", { class: "quiet" }, note), h("span", { class: "spacer" }), buttons);

/** Return the buttons that lead through the pages; `state` keeps the tokens of the pages before. */
function paging(state, next, refresh) {
  state.before ??= [];
  if (!next && state.before.length === 0) return null;
  const go = (change) => () => { change(); refresh(); };
  return h("div", { class: "buttons paging" },
    button("Previous page", go(() => { state.after = state.before.pop(); }), { disabled: state.before.length === 0 }),
    button("Next page", go(() => { state.before.push(state.after); state.after = next; }), { disabled: !next }));
}

/** Remember a choice of a view, and begin with its first page. */
const firstPage = (state, choice) => Object.assign(state, choice, { after: null, before: [] });

/** Return the id of a run, as a link if Airflow has started it. */
const linked = ({ url, run_id: id }) => (url ? h("a", { href: url, class: "id" }, id) : h("span", { class: "id" }, id));

const nothing = (text) => h("p", { class: "nothing" }, text);

// Overview

const WHERE = { journal: "grid", "tag views": "grid", checks: "findings", projections: "projections", replication: "topics", purge: "purges", groups: "groups", observation: "projections" };

export async function overview(state, refresh, show) {
  const answer = await get("overview");
  const lines = answer.lines.map((line) => {
    const { order: wanted, unpause } = line;
    return row(line.subject, h("a", { href: `#${WHERE[line.subject] ?? "overview"}` }, line.subject),
      h("td", {}, badge(line.state, line.state)),
      h("td", {}, moment(line.since)),
      h("td", { class: "wide" }, line.what, line.remedy && h("code", { class: "remedy" }, line.remedy)),
      h("td", { class: "actions" }, wanted && order(title(wanted), wanted),
        unpause && h("a", { href: inAirflow(`/dags/${unpause}`) }, `Open ${unpause}`)));
  });
  show(answer);
  return [
    heading("Overview"),
    condition(answer),
    table("The parts of the system", ["Part", "State", "Since (UTC)", "Why, and what to do", ""], lines, "lines"),
  ];
}

const title = ({ dag_id: dag, conf }) => (conf.operation ? conf.operation[0].toUpperCase() + conf.operation.slice(1) : `Run ${dag}`);

/** Return what is to say of a system in which nothing has run, or nothing runs any more. */
function condition(answer) {
  if (answer.state === "empty") {
    return h("div", { class: "notice" }, h("strong", {}, "Nothing has run yet."),
      " The first run creates Tidemark's tables. Unpause the DAG tag_write, or start it with a window.");
  }
  if (answer.lines.some((line) => line.state === "stopped") && answer.last_ended) {
    const day = new Date(answer.last_ended).toLocaleDateString("en", { weekday: "long", timeZone: "UTC" });
    return h("div", { class: "notice stopped" }, h("strong", {}, `Nothing has run since ${day} ${utc(answer.last_ended)} UTC.`),
      " The scheduler is down, or a DAG is paused.");
  }
  return null;
}

// Projections

const CONDITIONS = { "up to date": "ok", behind: "info", held: "late", paused: "late", "not begun": "empty", failed: "bad", unusable: "bad", "table missing": "bad" };

export async function projections(state, refresh) {
  const [, chosen] = window.location.hash.split("?");
  if (chosen) return projection(decodeURIComponent(chosen), heading, order);
  const answer = await get("projections", { limit: LIMIT, after: state.after });
  const rows = answer.items.map((item) => {
    const details = [item.problem, item.gap && `waits: ${item.gap}`, item.last_error, item.paused_at && `paused ${utc(item.paused_at)} by ${item.paused_by}`];
    const name = { projections: [item.name] };
    const manage = (operation) => ({ dag_id: dagOf("manage_projections"), conf: { operation, ...name } });
    const isBroken = item.version === null;
    return row(item.name, [h("a", { href: `#projections?${encodeURIComponent(item.name)}` }, item.name), details.filter(Boolean).map((text) => h("div", { class: "detail" }, text))],
      item.version === null ? "–" : String(item.version),
      badge(item.condition, CONDITIONS[item.condition] ?? "unknown"),
      number(amount(item.lag_events)),
      number(lag(item.lag_seconds)),
      item.oldest_gap ? [utc(item.oldest_gap), h("span", { class: "quiet" }, ` ${lag(item.gap_age_seconds)} old`)] : "–",
      number(amount(item.held)),
      number(amount(item.quarantined)),
      h("td", { class: "actions" }, !isBroken && [
        item.paused_at ? order("Resume", manage("resume"), item.name) : order("Pause", manage("pause"), item.name),
        item.oldest_open && item.newest && order("Run", { dag_id: dagOf("project"), conf: { ...name, window_start: item.oldest_open, window_end: item.newest } }, item.name),
        item.quarantined.number > 0 && order("Retry quarantine", manage("quarantine retry"), `of ${item.name}`),
        item.oldest_gap && order("Skip gaps", { dag_id: dagOf("manage_projections"), conf: { operation: "skip", ...name, gaps: true } }, `of ${item.name}`),
      ]));
  });
  return [
    heading("Projections"),
    rows.length ? table("Projections", ["Name", "Version", "State", "Lag (events)", "Lag (time)", "Oldest gap (UTC)", "Held", "Quarantined", ""], rows) : nothing("No projection is defined."),
    paging(state, answer.next, refresh),
  ];
}

// Findings

export async function findings(state, refresh) {
  const isSettled = state.kind === "settled";
  const bucket = window.location.hash.split("?")[1];
  if (state.bucket !== bucket) firstPage(state, { bucket });
  const answer = await get("findings", {
    settled: isSettled, check: state.check, severity: isSettled ? "" : state.severity, time_bucket: bucket,
    before: state.days && new Date(Date.now() - state.days * 86_400_000).toISOString(), limit: 100, after: state.after,
  });
  state.checks = new Set([...(state.checks ?? []), ...answer.items.map((item) => item.check)]);
  const items = [...answer.items].sort((one, other) => (one.since ?? "").localeCompare(other.since ?? ""));
  const filter = (name) => (event) => { firstPage(state, { [name]: event.target.value.trim() }); refresh(); };
  const choose = (name, label, options) =>
    h("label", {}, `${label} `, h("select", { onchange: filter(name) },
      options.map(([value, text]) => h("option", { value, selected: (state[name] ?? "") === value }, text))));
  const rows = items.map((item) => row(JSON.stringify([item.check, item.persistence_id, item.tag, item.number, item.time_bucket]), item.check,
    isSettled ? badge("settled", "ok") : badge(item.blocks ? "blocks" : "warns", item.blocks ? "bad" : "late"),
    moment(item.since),
    h("td", { class: "id" }, item.persistence_id || "–"),
    h("td", { class: "id" }, item.tag || "–"),
    item.time_bucket ? utc(item.time_bucket) : "–",
    number(item.expected === null ? String(item.number) : `${item.number}, expected ${item.expected}`),
    h("td", { class: "wide" }, isSettled ? `${item.reason} (${item.owner})` : item.detail),
    h("td", { class: "actions" }, !isSettled && item.blocks && [
      item.persistence_id && order("Repair", { dag_id: dagOf("reconcile"), conf: { operation: "repair", persistence_ids: [item.persistence_id] } }, item.persistence_id),
      order("Settle", {
        dag_id: dagOf("reconcile"), dry_run: false,
        conf: { operation: "settle", check: item.check, number: item.number, ...(item.persistence_id ? { persistence_ids: [item.persistence_id] } : item.tag ? { tags: [item.tag] } : {}), reason: "" },
        fields: [{ name: "reason", title: "Reason: why you accept this finding", kind: "text", required: true }],
      }, `${item.check} ${item.persistence_id || item.tag}`),
    ])));
  const part = answer.next || state.before?.length ? " of this page" : "";
  return [
    heading("Findings", `${items.length}${part}, the oldest first`, !isSettled && order("Repair what was found", { dag_id: dagOf("reconcile"), conf: { operation: "repair", from_findings: true } })),
    h("div", { class: "filters" },
      bucket && h("span", {}, `Time bucket ${utc(bucket)} `, h("a", { href: "#findings" }, "Show all")),
      choose("kind", "Show", [["", "open"], ["settled", "settled"]]),
      h("label", {}, "Check ", h("input", { type: "text", value: state.check, list: "checks", placeholder: "all", onchange: filter("check") })),
      h("datalist", { id: "checks" }, [...state.checks].sort().map((name) => h("option", { value: name }))),
      !isSettled && choose("severity", "Severity", [["", "all"], ["blocks", "blocks"], ["warns", "warns"]]),
      choose("days", "Age", [["", "all"], ["1", "more than a day"], ["7", "more than 7 days"], ["30", "more than 30 days"]])),
    rows.length ? table("Findings", ["Check", "Severity", "Since (UTC)", "Persistence id", "Tag", "Time bucket (UTC)", "Number", isSettled ? "Reason" : "Evidence", ""], rows) : nothing(answer.next ? "No such finding on this page; the next page continues the search." : state.check || state.severity || state.days || bucket ? "No such finding." : isSettled ? "No finding is settled." : "No open finding."),
    paging(state, answer.next, refresh),
  ];
}

// Topics

export async function topics(state, refresh) {
  const isHeld = state.kind === "held";
  const answer = await get("replication", { held: isHeld, limit: LIMIT, after: state.after });
  const replay = (conf) => ({ dag_id: dagOf("manage_replication"), conf: { operation: "replay", ...conf } });
  const rows = isHeld
    ? answer.items.map((item) => row(JSON.stringify([item.partition, item.key]), h("span", { class: "id" }, item.key), item.partition, badge(item.state, "late"), number(String(item.records)), number(String(item.first)), moment(item.since),
      h("td", { class: "actions" }, order("Replay", replay({ topics: [item.partition.replace(/\/\d+$/, "")], keys: [item.key] }), item.key))))
    : answer.items.map((item) => row(`${item.topic}/${item.partition}`, [`${item.topic}/${item.partition}`, item.problem && h("div", { class: "detail" }, item.problem)],
      moment(item.replicated_to, { age: false }), number(span(item.lag_seconds)), number(amount(item.lag_events)), number(String(item.next_offset ?? "–")), number(amount(item.held_keys)), number(amount(item.held_records)), moment(item.held_since),
      h("td", { class: "actions" }, item.held_keys.number > 0 && order("Replay", replay({ topics: [item.topic] }), item.topic))));
  const columns = isHeld
    ? ["Key", "Topic partition", "State", "Records", "First offset", "Since (UTC)", ""]
    : ["Topic partition", "Replicated to (UTC)", "Lag (time)", "Lag (events)", "Next offset", "Held keys", "Held records", "Held since (UTC)", ""];
  const change = () => { firstPage(state, { kind: isHeld ? "" : "held" }); refresh(); };
  return [
    heading("Topics", isHeld && "held keys", button(isHeld ? "Topic partitions" : "Held keys", change), order("Replicate", { dag_id: dagOf("replicate"), conf: {} })),
    rows.length ? table(isHeld ? "Held keys" : "Topic partitions", columns, rows) : nothing(isHeld ? "No key is held." : "No topic is replicated."),
    paging(state, answer.next, refresh),
  ];
}

// Event groups

export async function groups(state, refresh) {
  const { stream } = state;
  const answer = await get("groups", { stream, limit: LIMIT, after: state.after });
  const choose = (name) => () => { firstPage(state, { stream: name }); refresh(); };
  const manage = (operation, item) => ({ dag_id: dagOf("manage_event_groups"), conf: { operation, groups: [item.group], stream: item.stream } });
  const rows = stream
    ? answer.items.map((item) => row(item.group, h("span", { class: "id" }, item.group), number(String(item.sequence)), badge(item.state, item.state === "rollback-failed" ? "bad" : item.held_by ? "late" : "info"), moment(item.submitted_at), item.held_by || "–", h("td", { class: "wide" }, item.reason || "–"),
      h("td", { class: "actions" }, order("Retry", manage("retry", item), item.group), order("Cancel", manage("cancel", item), item.group))))
    : answer.items.map((item) => row(item.stream, button(item.stream, choose(item.stream), { class: "link" }), number(amount(item.open)), number(amount(item.held)),
      item.stuck.length ? badge(item.stuck.join(", "), "bad") : "–", item.oldest_open || "–", moment(item.oldest_submitted_at),
      h("td", { class: "actions" }, order("Run", { dag_id: dagOf("event_groups"), conf: { stream: item.stream } }, item.stream))));
  const columns = stream ? ["Group", "Sequence", "State", "Submitted (UTC)", "Held by", "Reason", ""] : ["Stream", "Open", "Held", "Not rolled back", "Oldest open", "Submitted (UTC)", ""];
  return [
    heading("Groups", stream && `open groups of stream ${stream}`, stream && button("All streams", choose(null))),
    rows.length ? table("Groups", columns, rows) : nothing(stream ? "No group is open." : "No stream has event groups."),
    paging(state, answer.next, refresh),
  ];
}

// Purges

export async function purges(state, refresh) {
  const [answer, waiting] = await Promise.all([
    get("purges", { limit: LIMIT, after: state.after }),
    airflow(`dags/${dagOf("purge")}/dagRuns/~/hitlDetails?response_received=false&limit=50`).catch(() => null),
  ]);
  const approvals = waiting?.hitl_details ?? [];
  const asks = approvals.map(({ task_instance: task }) =>
    row(task.dag_run_id, h("a", { href: inAirflow(`/dags/${task.dag_id}/runs/${encodeURIComponent(task.dag_run_id)}/tasks/${task.task_id}/required_actions`) }, task.dag_run_id),
      badge("awaits approval", "late"), moment(task.start_date)));
  const policies = answer.policies.items.map((item) =>
    row(item.name, [item.name, item.error && h("div", { class: "detail" }, item.error)], stateBadge(item.state), moment(item.finished_at), counted(item.counts),
      h("td", { class: "actions" }, order("Plan", { dag_id: dagOf("purge"), conf: { policies: [item.name] }, dry_run: true }, item.name))));
  const plans = answer.plans.items.map((item) =>
    row(`${item.at}${item.run_id}`, linked(item), moment(item.at), stateBadge(item.state), number(item.tombstones === null ? "–" : item.tombstones.toLocaleString("en")), counted(item.counts), h("span", { class: "id" }, item.owner)));
  return [
    heading("Purges", null, order("Plan a purge", { dag_id: dagOf("purge"), conf: {}, dry_run: true })),
    h("h3", {}, "Plans that await approval"),
    asks.length ? table("Plans that await approval", ["Run", "State", "Since (UTC)"], asks) : nothing(waiting ? "No plan awaits an approval." : "Airflow did not say which plans await an approval."),
    h("h3", {}, "Policies"),
    policies.length ? table("Policies", ["Policy", "State", "Ended (UTC)", "Counts", ""], policies) : nothing("No policy was applied yet."),
    h("h3", {}, "Plans"),
    plans.length ? table("Plans", ["Run", "At (UTC)", "State", "Deletes", "Counts", "Owner"], plans) : nothing("No plan was made in the last year."),
    paging(state, answer.plans.next, refresh),
  ];
}

const counted = (counts) => Object.entries(counts ?? {}).map(([name, many]) => `${name.replaceAll("_", " ")} ${many.toLocaleString("en")}`).join(", ") || "–";

// Runs

export async function runs(state, refresh) {
  const answer = await get("runs", { limit: LIMIT, after: state.after });
  const rows = answer.items.map((item) => row(item.run_id,
    [linked(item), item.error && h("div", { class: "detail" }, item.error)],
    item.application, stateBadge(item.state), h("span", { class: "id" }, item.started_by), moment(item.started_at),
    h("td", {}, h("progress", { max: Math.max(item.pieces_started, 1), value: item.pieces_done, "aria-label": `Progress of ${item.run_id}` }), ` ${item.pieces_done} of ${item.pieces_started}`),
    number(amount(item.rows_per_second)), number(item.state === "running" ? lag(item.seconds_left) : "–")));
  return [
    heading("Runs"),
    rows.length ? table("Runs", ["Run", "Application", "State", "Started by", "Started (UTC)", "Time buckets", "Rows/s", "Time left"], rows) : nothing("Nothing has run yet."),
    paging(state, answer.next, refresh),
  ];
}
